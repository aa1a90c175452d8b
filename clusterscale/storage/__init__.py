"""Storage on any file system: files, atomic writes, result tables."""

from clusterscale.storage.address import local_path
from clusterscale.storage.connection import absolute, connect, is_remote, open_store
from clusterscale.storage.files import (
    exists,
    list_names,
    open_file,
    put,
    put_new,
    read,
    read_file,
    remove,
    size,
)
from clusterscale.storage.groups import create_group, open_dataset, open_group
from clusterscale.storage.outputs import check_new, check_outputs
