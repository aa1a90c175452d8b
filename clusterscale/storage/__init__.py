"""Storage on any file system: files, atomic writes, result tables."""

from clusterscale.storage.files import (
    absolute,
    connect,
    create_group,
    exists,
    is_remote,
    list_names,
    local_path,
    open_dataset,
    open_file,
    open_group,
    open_store,
    put,
    put_new,
    read,
    remove,
    size,
)

__all__ = [
    "absolute",
    "connect",
    "create_group",
    "exists",
    "is_remote",
    "list_names",
    "local_path",
    "open_dataset",
    "open_file",
    "open_group",
    "open_store",
    "put",
    "put_new",
    "read",
    "remove",
    "size",
]
