"""Writes docker-archive tars (what `ctr images import` takes) and their layers. Reproducible: sorted names, fixed times, owner root."""

import hashlib
import io
import json
import os
import tarfile

EPOCH = "2026-01-01T00:00:00Z"
MTIME = 1767225600  # EPOCH in seconds
MAX_LAYERS = 16


class Layer:
    """A layer's tar in memory, with add_* for its entries. Parent folders appear by themselves."""

    def __init__(self):
        self._entries = {}

    def add_dir(self, path, mode=0o755, uid=0, gid=0):
        self._add(path, tarfile.DIRTYPE, mode, b"", uid, gid)

    def add_bytes(self, path, data, mode=0o644, uid=0, gid=0):
        self._add(path, tarfile.REGTYPE, mode, data, uid, gid)

    def add_file(self, path, source, mode=None, uid=0, gid=0):
        with open(source, "rb") as file:
            data = file.read()
        self.add_bytes(path, data, os.stat(source).st_mode & 0o755 if mode is None else mode, uid, gid)

    def add_link(self, path, target):
        self._add(path, tarfile.SYMTYPE, 0o777, target, 0, 0)

    def add_tree(self, root):
        """Every file under root, at its place relative to root."""
        for folder, _, names in sorted(os.walk(root)):
            for name in sorted(names):
                source = os.path.join(folder, name)
                self.add_file(os.path.relpath(source, root), source)

    def _add(self, path, kind, mode, data, uid, gid):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self._entries:
            self._add(parent, tarfile.DIRTYPE, 0o755, b"", 0, 0)
        self._entries[path] = (kind, mode, data, uid, gid)

    def tar(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, (kind, mode, data, uid, gid) in sorted(self._entries.items()):
                info = tarfile.TarInfo(path)
                info.type, info.mode, info.mtime, info.uid, info.gid = kind, mode, MTIME, uid, gid
                if kind == tarfile.SYMTYPE:
                    info.linkname = data
                    tar.addfile(info)
                else:
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
        return out.getvalue()


def sha256_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def image_config(diff_ids, config):
    """The image's config as bytes; its sha256 is the image's id."""
    return json.dumps({
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "created": EPOCH,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in diff_ids]},
        "history": [{"created": EPOCH, "created_by": "homeostat"} for _ in diff_ids],
    }, sort_keys=True).encode()


def write_archive(out, name, layers, config):
    """layers: (sha256, path or bytes), lowest first. Written beside `out`, then renamed, so that `out` is whole or absent."""
    assert 0 < len(layers) <= MAX_LAYERS
    config_bytes = image_config([digest for digest, _ in layers], config)
    config_name = hashlib.sha256(config_bytes).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar" for digest, _ in layers]}]
    partial = f"{out}.partial"
    try:
        with tarfile.open(partial, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _member(tar, "manifest.json", json.dumps(manifest).encode())
            _member(tar, config_name, config_bytes)
            for digest, content in layers:
                _member(tar, f"{digest}/layer.tar", content)
        os.rename(partial, out)
    except BaseException:  # a disk that is full must not stay full because of us
        os.unlink(partial)
        raise


def _member(tar, name, content):
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = 0o644, MTIME
    if isinstance(content, bytes):
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
        return
    info.size = os.path.getsize(content)
    with open(content, "rb") as file:
        tar.addfile(info, file)
