# SPDX-License-Identifier: Apache-2.0
"""Fetches Debian packages, or their sources, of one suite without installing them or touching the host's apt.

apt runs with a source list and state of its own, so it checks signatures and checksums as ever. The
mirror is the one that the host's own apt uses.
"""

import contextlib
import pathlib
import re
import subprocess

from machine.errors import Unavailable

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCHING = "It is fetched once, from the mirror of the host's apt: is that reachable?"


def run(command: list[str | pathlib.Path], advice: str = "", **options) -> str:
    """Standard output of the command; a missing or failing one is Unavailable."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    except OSError as error:
        raise Unavailable(f"running {command[0]}: {error.strerror}. {advice}".strip()) from error
    if result.returncode != 0:
        said = " ".join((result.stderr or result.stdout).split())
        line = " ".join(str(word) for word in command)
        raise Unavailable(f"'{line}' ended with {result.returncode}: {said}. {advice}".strip())
    return result.stdout


class Suite:
    """The packages of one suite. A suite by itself leaves apt one candidate for each name."""

    def __init__(self, suite: str, state: pathlib.Path, kind: str = "deb") -> None:
        """Asks the mirror what the suite has. state: a folder for apt's own files, made here. kind: "deb", or "deb-src" for
        source()."""
        self._state = state.absolute()
        self._configuration = _configure(suite, self._state, kind)
        run(["apt-get", "-c", self._configuration, "update"], FETCHING)

    def record(self, package: str) -> str:
        """The package's fields, Depends among them, as in a Packages file."""
        return run(["apt-cache", "-c", self._configuration, "show", "--no-all-versions", package],
                   FETCHING)

    def download(self, packages: list[str]) -> list[pathlib.Path]:
        """The packages as .deb files in the state folder."""
        run(["apt-get", "-c", self._configuration, "download", *packages], FETCHING, cwd=self._state)
        return sorted(self._state.glob("*.deb"))

    def source(self, package: str) -> pathlib.Path:
        """Its sources as the distribution has them; returns the .dsc file, beside which the others lie."""
        run(["apt-get", "-c", self._configuration, "source", "--download-only", package], FETCHING, cwd=self._state)
        return next(self._state.glob(f"{package}_*.dsc"))


def _mirror() -> str:
    """The Debian archive that the host's own apt is configured for."""
    codename = None
    with contextlib.suppress(OSError):
        release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
        match = re.search(r'^VERSION_CODENAME="?(\w+)"?$', release, re.MULTILINE)
        codename = match.group(1) if match else None
    targets = run(["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)",
                   "Created-By: Packages"], "Debian's kernels are fetched with apt.")
    for line in targets.splitlines():
        release, component, uri = line.split(maxsplit=2)
        if release == codename and component == "main":
            return uri
    raise Unavailable(f"apt's sources have no suite '{codename}' with a component 'main', which "
                      "would tell where Debian's archive is. Run this on a Debian system.")


def _configure(suite: str, state: pathlib.Path, kind: str) -> pathlib.Path:
    """Writes a configuration that shares nothing with the host's apt but its options."""
    if not KEYRING.exists():
        raise Unavailable(f"{KEYRING} is missing: install debian-archive-keyring")
    (state / "lists/partial").mkdir(parents=True)
    (state / "archives/partial").mkdir(parents=True)
    (state / "status").touch()
    (state / "debian.sources").write_text(
        f"Types: {kind}\nURIs: {_mirror()}\nSuites: {suite}\nComponents: main\n"
        f"Architectures: amd64\nSigned-By: {KEYRING}\n", encoding="utf-8")
    configuration = state / "apt.conf"
    # The host's hooks would act on the host. Sandbox: apt's own user may not reach our folder.
    configuration.write_text(
        "#clear APT::Update::Pre-Invoke;\n"
        "#clear APT::Update::Post-Invoke;\n"
        "#clear APT::Update::Post-Invoke-Success;\n"
        f'Dir::State "{state}";\n'
        f'Dir::State::lists "{state}/lists";\n'
        f'Dir::State::status "{state}/status";\n'
        f'Dir::Cache "{state}";\n'
        f'Dir::Cache::archives "{state}/archives";\n'
        f'Dir::Etc::sourcelist "{state}/debian.sources";\n'
        'Dir::Etc::sourceparts "-";\n'
        'APT::Sandbox::User "root";\n'
        'APT::Architecture "amd64";\n'
        'APT::Update::Error-Mode "any";\n', encoding="utf-8")
    return configuration
