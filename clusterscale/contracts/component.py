"""Base class of everything a config can name, and types of config fields."""

import json
from hashlib import blake2b
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

from clusterscale.errors import ConfigError
from clusterscale.redaction import check_url
from clusterscale.validation_messages import explain

__all__ = ["Address", "ConfigModel", "Count", "Even", "Positive", "Probability", "Share"]
__all__ += ["hash_of"]

Address = Annotated[str, Field(min_length=1), AfterValidator(check_url)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Probability = Annotated[float, Strict(), Field(gt=0, lt=1)]
Count = Annotated[int, Strict(), Field(ge=1)]
Even = Annotated[int, Strict(), Field(ge=4, multiple_of=2)]


def hash_of(value: Any) -> str:
    """Return a hash of plain values; equal values have equal hashes."""
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


class ConfigModel(BaseModel):
    """Base model of what a config can name: immutable, hashable, picklable, with strict fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    _label_always: ClassVar[tuple[str, ...]] = ()  # fields to show even if they have their default
    _label_last: ClassVar[tuple[str, ...]] = ()  # minor fields, shown after the others

    def __init__(self, /, **fields: Any) -> None:
        """Check the fields.

        Raises
        ------
        ConfigError
            If a field is missing, unknown, of the wrong type or out of range; the message names
            each field, after the class name.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            model = type(self)
            raise ConfigError(explain(error, model, prefix=(model.__name__,))) from None

    # With this flag, pydantic builds nested models without calling this method, so that an error
    # in one is reported with the path of its key.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @property
    def digest(self) -> str:
        """Hash of all fields; equal models have equal digests."""
        return hash_of(self.model_dump(mode="json"))

    @property
    def label(self) -> str:
        """The name with the non-default fields, e.g. ``laplace(epsilon=1.0)``."""
        shown = self.model_dump(exclude={"name"}, exclude_defaults=True)
        shown |= {key: getattr(self, key) for key in self._label_always}
        shown |= {key: shown.pop(key) for key in self._label_last if key in shown}
        fields = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        name = str(getattr(self, "name", type(self).__name__))
        return f"{name}({fields})" if fields else name
