"""Commands, one file each; the name of the file is the name of the command. A command defines `main(arguments)`."""

KIND = "command"
