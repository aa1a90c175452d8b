"""What a config can name, and the kinds of numbers its fields hold."""

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
    """Return the hash of plain values: what is equal has the same."""
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


class ConfigModel(BaseModel):
    """Something a config can name: immutable, hashable, picklable, strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    _label_always: ClassVar[tuple[str, ...]] = ()  # fields whose default is no matter of course
    _told_last: ClassVar[tuple[str, ...]] = ()  # fields that matter less than the others

    def __init__(self, /, **fields: Any) -> None:
        """Check the fields.

        Raises
        ------
        ConfigError
            If a field is missing, unknown, of the wrong type or out of range; the message names
            each, after the name of the class.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            model = type(self)
            raise ConfigError(explain(error, model, prefix=(model.__name__,))) from None

    # Pydantic then builds what is nested in another model without this method, as it does where
    # there is none, so that a fault there is reported with the path of its key.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @property
    def digest(self) -> str:
        """Hash of all fields: what is equal has the same."""
        return hash_of(self.model_dump(mode="json"))

    @property
    def label(self) -> str:
        """The name with the fields that were set, e.g. ``laplace(epsilon=1.0)``."""
        given = self.model_dump(exclude={"name"}, exclude_defaults=True)
        given |= {key: getattr(self, key) for key in self._label_always}
        given |= {key: given.pop(key) for key in self._told_last if key in given}
        fields = ", ".join(f"{key}={value!r}" for key, value in given.items())
        name = str(getattr(self, "name", type(self).__name__))
        return f"{name}({fields})" if fields else name
