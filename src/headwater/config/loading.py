"""Loading settings from a file, the environment and the command line."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import msgspec

from headwater.config.settings import Key, Settings, keys
from headwater.errors import ConfigurationError
from headwater.log.settings import REMOTE_DEFAULTS
from headwater.objects.urls import is_remote


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Load the settings. ``flags`` maps dotted names to values of the command line."""
    known = {key.name: key for key in keys()}
    values: dict[str, object] = {}
    if file is not None:
        for name, value in _read_file(file):
            key = _lookup(known, name, str(file))
            if value is not None:
                values[name] = _checked(key, value, str(file), strict=True)
    variables = {key.variable: key for key in known.values()}
    for variable, text in environment.items():
        if not text:
            continue
        if (variable_key := variables.get(variable)) is not None:
            values[variable_key.name] = _checked(variable_key, text, variable, strict=False)
        else:
            _refuse_misspelt(variable, list(variables))
    for name, value in flags.items():
        values[name] = _checked(known[name], value, "the command line", strict=False)
    return _assemble(_store_defaults(values.get("objects")) | values)


def _store_defaults(objects_url: object) -> dict[str, object]:
    """The defaults that depend on the object store."""
    if not isinstance(objects_url, str) or not is_remote(objects_url):
        return {}
    return {f"log.{name}": value for name, value in REMOTE_DEFAULTS.items()}


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
    sections = {field.name for field in fields(Settings) if is_dataclass(field.type)}
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
    """Refuse a variable that looks like a misspelt setting.

    Other variables may have the same prefix: Kubernetes sets some in every container if a service
    is called ``headwater``, and commands read some of their own.
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
    defaults = Settings()
    for section, given in sections.items():
        top[section] = replace(getattr(defaults, section), **given)
    return replace(defaults, **top)  # type: ignore[arg-type]
