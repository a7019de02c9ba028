"""One connection to a peer: answers the requests of the protocol as the game does, with a simulated battle."""

from typing import Any

import numpy as np

from refil.envs.sc2 import install
from refil.envs.sc2.peer.battle import Battle, Simulator
from refil.envs.sc2.records import ALLY, Command, Placement
from refil.envs.starcraft.sim.unit import AIR

VERSION, BUILD = "refil simulator", 0
MAP_SIZE = 32
LAST_TICK = 2**19
PLAYING = ("observation", "step", "action", "debug", "game_info")  # requests that need a game
SELF, OPPONENT, VISIBLE, DEFEAT = 1, 4, 1, 2  # the protocol's numbers


class Session:
    """The state of one game: launched, created, joined, ended."""

    def __init__(self, simulator: Simulator, number: int, last_tick: int = LAST_TICK) -> None:
        self.number = number
        self.battle = Battle(simulator, seed=number)
        self.last_tick = last_tick
        self._simulator = simulator
        self._protocol = install.protocol()
        self._commands_enemies = False
        self.status = self._protocol.api.launched

    def handle(self, request: Any) -> Any:
        """Return the response to a request, or None for one that has no response."""
        api = self._protocol.api
        name = request.WhichOneof("request") or ""
        response = api.Response(id=request.id)
        if name == "quit":
            self.status = api.quit
            return None
        try:
            self._check_status(name)
            getattr(response, name).CopyFrom(getattr(self, f"_{name}")(getattr(request, name)))
        except ValueError as error:
            response.ClearField(name) if name else None
            response.error.append(str(error))
        response.status = self.status
        return response

    def end(self) -> None:
        """End the game, as it does after its last tick."""
        self.status = self._protocol.api.ended

    def refuse(self, request: Any) -> Any:
        """Return a response with an error."""
        return self._protocol.api.Response(id=request.id, status=self.status, error=["refused, as this peer was told"])

    def _check_status(self, name: str) -> None:
        api = self._protocol.api
        if not hasattr(self, f"_{name}") or not name:
            raise ValueError(f"request {name or '(empty)'} is not supported")
        allowed = {"create_game": (api.launched, api.ended), "join_game": (api.init_game,)}
        if name in PLAYING:
            allowed[name] = (api.in_game, api.ended) if name in ("observation", "game_info") else (api.in_game,)
        if name in allowed and self.status not in allowed[name]:
            raise ValueError(f"request {name} is not valid in status {api.Status.Name(self.status)}")

    def _ping(self, _: Any) -> Any:
        return self._protocol.api.ResponsePing(game_version=VERSION, data_version="", data_build=BUILD, base_build=BUILD)

    def _create_game(self, create: Any) -> Any:
        api = self._protocol.api
        if not create.local_map.map_path:
            return api.ResponseCreateGame(error=api.ResponseCreateGame.MissingMap)
        if [player.type for player in create.player_setup] != [api.Participant, api.Computer]:
            return api.ResponseCreateGame(error=api.ResponseCreateGame.InvalidPlayerSetup)
        self.battle = Battle(self._simulator, seed=create.random_seed)
        self._commands_enemies, self.status = False, api.init_game
        return api.ResponseCreateGame()

    def _join_game(self, join: Any) -> Any:
        api = self._protocol.api
        if not join.options.raw:  # observations would have no units
            return api.ResponseJoinGame(error=api.ResponseJoinGame.MissingOptions)
        self.status = api.in_game
        return self._protocol.api.ResponseJoinGame(player_id=ALLY)

    def _game_info(self, _: Any) -> Any:
        common, arena = self._protocol.common, self._simulator.env.game.arena
        rows = np.arange(MAP_SIZE)
        walkable = np.zeros((MAP_SIZE, MAP_SIZE), np.uint8)  # [y, x], from the south
        walkable[np.ix_((rows >= arena.south) & (rows < arena.north), (rows >= arena.west) & (rows < arena.east))] = 1
        size = common.Size2DI(x=MAP_SIZE, y=MAP_SIZE)
        response = self._protocol.api.ResponseGameInfo(map_name="simulator")
        start = response.start_raw
        start.map_size.CopyFrom(size)
        pathing = np.packbits(walkable, axis=1).tobytes()
        start.pathing_grid.CopyFrom(common.ImageData(bits_per_pixel=1, size=size, data=pathing))
        start.terrain_height.CopyFrom(common.ImageData(bits_per_pixel=8, size=size, data=bytes(MAP_SIZE**2)))
        start.playable_area.p1.x = start.playable_area.p1.y = MAP_SIZE
        return response

    def _observation(self, _: Any) -> Any:
        api, battle = self._protocol.api, self.battle
        response = api.ResponseObservation()
        observation = response.observation
        observation.game_loop = battle.tick
        observation.player_common.player_id = ALLY
        observation.raw_data.units.extend(self._unit(slot) for slot in battle.alive())
        observation.raw_data.event.dead_units.extend(battle.dead)
        battle.dead = []
        if self.status == api.ended:
            response.player_result.add(player_id=ALLY, result=DEFEAT)
        return response

    def _step(self, step: Any) -> Any:
        self.battle.advance(max(step.count, 1))
        if self.battle.tick >= self.last_tick:
            self.end()
        return self._protocol.api.ResponseStep(simulation_loop=self.battle.tick)

    def _action(self, action: Any) -> Any:
        orders = [each.action_raw.unit_command for each in action.actions]
        return self._protocol.api.ResponseAction(result=[self._give(order) for order in orders])

    def _debug(self, debug: Any) -> Any:
        for command in debug.debug:
            if command.HasField("kill_unit"):
                self.battle.kill(list(command.kill_unit.tag))
            elif command.HasField("game_state"):
                self._commands_enemies |= command.game_state == self._protocol.debug.control_enemy
        created = [command.create_unit for command in debug.debug if command.HasField("create_unit")]
        placements = [
            Placement(unit.unit_type, unit.owner, unit.pos.x, unit.pos.y) for unit in created for _ in range(unit.quantity)
        ]
        if placements:
            self.battle.spawn(placements)
        return self._protocol.api.ResponseDebug()

    def _give(self, order: Any) -> int:
        target = order.target_unit_tag if order.HasField("target_unit_tag") else None
        position = order.target_world_space_pos
        goal = (position.x, position.y) if order.HasField("target_world_space_pos") else None
        return self.battle.command(Command(order.ability_id, tuple(order.unit_tags), target, goal), self._commands_enemies)

    def _unit(self, slot: int) -> Any:
        battle, state, unit = self.battle, self.battle.state, self.battle.unit(slot)
        ally = battle.owners[slot] == ALLY
        message = self._protocol.raw.Unit(
            display_type=VISIBLE,
            alliance=SELF if ally else OPPONENT,
            tag=int(battle.tags[slot]),
            unit_type=int(battle.type_ids[slot]),
            owner=int(battle.owners[slot]),
            radius=unit.radius,
            build_progress=1.0,
            health=state.health[slot],
            health_max=unit.max_health,
            shield=state.shield[slot],
            shield_max=unit.max_shield,
            energy=state.energy[slot],
            energy_max=unit.max_energy,
            weapon_cooldown=state.cooldown[slot],
            is_flying=unit.plane == AIR,
        )
        message.pos.x, message.pos.y, message.pos.z = state.x[slot], state.y[slot], 0.0
        return message
