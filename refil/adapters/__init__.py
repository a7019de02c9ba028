"""Adapters: refil's environments in the forms of other libraries, one file per library.

Importing an adapter imports its library, which is an extra: `pip install 'refil[pettingzoo]'`.
"""
