"""The layers that settings come from, checked key by key."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from headwater.config.tree import Key, Settings, keys
from headwater.errors import ConfigurationError


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Settings from all layers; ``flags`` maps dotted names to what the command line gave."""
    known = {key.name: key for key in keys()}
    values: dict[str, object] = {}
    if file is not None:
        for name, value in _read_file(file):
            values[name] = _checked(_lookup(known, name, str(file)), value, str(file), strict=True)
    variables = {key.variable: key for key in known.values()}
    for variable, text in environment.items():
        if not text:
            continue
        if (key := variables.get(variable)) is not None:
            values[key.name] = _checked(key, text, variable, strict=False)
        else:
            _refuse_misspelt(variable, list(variables))
    for name, value in flags.items():
        values[name] = _checked(known[name], value, "the command line", strict=False)
    return _assemble(values)


def _read_file(file: Path) -> Iterator[tuple[str, object]]:
    import yaml

    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"{file}: is not valid YAML: {reason}") from error
    if tree is None:
        return
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{file}: is {tree!r}; expected a mapping of settings")
    sections = {
        field.name: type(field.default)
        for field in msgspec.structs.fields(Settings)
        if isinstance(field.default, Struct)
    }
    for name, value in tree.items():
        if name not in sections:
            yield str(name), value
        elif isinstance(value, dict):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        elif value is not None:
            raise ConfigurationError(f"{file}: {name} is {value!r}; expected a mapping of settings")


def _lookup(known: Mapping[str, Key], name: str, source: str) -> Key:
    if name in known:
        return known[name]
    section = name.rpartition(".")[0]
    near = difflib.get_close_matches(name, known, n=1)
    siblings = [key for key in known if key.rpartition(".")[0] == section]
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(siblings)}"
    raise ConfigurationError(f"{source}: unknown setting {name}; {hint}")


_KUBERNETES = re.compile(r"_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$")


def _refuse_misspelt(variable: str, known: Sequence[str]) -> None:
    """Refuse a variable that is surely meant for us and is not a setting.

    Kubernetes puts variables with this prefix into every container beside a service that is
    named ``headwater``, and commands have some of their own, so not every stranger is wrong.
    """
    if not variable.startswith("HEADWATER_") or _KUBERNETES.search(variable):
        return
    near = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
    if near:
        raise ConfigurationError(f"{variable}: unknown setting; did you mean {near[0]}?")


def _checked(key: Key, value: object, source: str, *, strict: bool) -> object:
    try:
        return msgspec.convert(value, key.type, strict=strict)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"{source}: {key.name} is {value!r}; expected {key.allowed}"
        ) from error


def _assemble(values: Mapping[str, object]) -> Settings:
    sections: dict[str, dict[str, object]] = {}
    top: dict[str, object] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        (sections.setdefault(section, {}) if section else top)[key] = value
    for field in msgspec.structs.fields(Settings):
        if field.name in sections:
            top[field.name] = msgspec.structs.replace(field.default, **sections[field.name])
    return Settings(**top)  # type: ignore[arg-type]
