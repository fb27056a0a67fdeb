"""Members of groups as processes: started, killed, stopped, woken, and asked to leave."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.invariants.brokers import ROOT
from tests.system.invariants.groups.history import GroupHistory
from tests.system.invariants.groups.member import SESSION_MS

LEAVE_SECONDS = 30.0


@dataclass(slots=True)
class MemberProcess:
    """A place in a group; the process that holds it may come and go, each with its own file."""

    group: str
    command: list[str]
    files: Path
    """A prefix of names."""
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.starts += 1
        file = self.files.with_name(f"{self.files.name}.{self.starts}")
        with self.files.with_name(f"{self.files.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, str(file)], stdout=log, stderr=log, cwd=ROOT
            )

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def written(self) -> Iterator[Path]:
        for number in range(1, self.starts + 1):
            file = self.files.with_name(f"{self.files.name}.{number}")
            if file.exists():
                yield file

    async def kill(self) -> None:
        """Kill -9, stopped or not."""
        if self.process is not None:
            self.process.kill()
            await asyncio.to_thread(self.process.wait)
            self.process = None

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def leave(self) -> None:
        """Ask it to leave its group; it must have ended by itself soon after."""
        assert self.process is not None
        self.process.terminate()
        await asyncio.to_thread(self.process.wait, LEAVE_SECONDS)
        assert self.process.returncode == 0, self.log()

    def log(self) -> str:
        return self.files.with_name(f"{self.files.name}.log").read_text(errors="replace")[-2000:]


@dataclass(slots=True)
class Fleet:
    """The members of all groups of a schedule."""

    members: list[MemberProcess] = field(default_factory=list)
    static: set[str] = field(default_factory=set)
    """The instances of static members."""
    static_session_ms: int = SESSION_MS

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(member.group for member in self.members))

    def add(
        self, directory: Path, bootstrap: str, topic: str, group: str, kind: str, count: int
    ) -> None:
        """``count`` members of one group, every fourth one static; not started."""
        for number in range(count):
            name = f"{group}-{number}"
            instance = name if number % 4 == 0 else ""
            self.static |= {instance} - {""}
            module = "tests.system.invariants.groups.member"
            session_ms = self.static_session_ms if instance else SESSION_MS
            arguments = [bootstrap, group, topic, kind, name, instance, str(session_ms)]
            command = [sys.executable, "-m", module, *arguments]
            self.members.append(MemberProcess(group, command, directory / name))

    def start(self) -> None:
        for member in self.members:
            member.start()

    async def leave(self) -> None:
        await asyncio.gather(*(member.leave() for member in self.members))

    async def kill(self) -> None:
        for member in self.members:
            await member.kill()

    def fallen(self) -> Sequence[MemberProcess]:
        """Members that ended by themselves: a fault is no reason for it."""
        return [member for member in self.members if not member.up]

    def tell(self, history: GroupHistory) -> None:
        """Add what all members wrote."""
        for member in self.members:
            history.read(member.group, member.written())
