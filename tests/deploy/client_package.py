"""The Debian package: what is in it, and that its program serves from where it is unpacked.

The environment is that of tutti_server.py, and TEST_BUILD, the build that CPack packs.
"""
import asyncio
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
from client_websockets import Server, load_clips, recognize, transcript  # noqa: E402


def output_of(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, **options).stdout


class Installed(Server):
    """The server of a package that is unpacked at `root`, as it is configured there."""

    def __init__(self, root):
        self.start([root / "usr/bin/tutti", "serve", "--config", root / "etc/tutti/tutti.toml", "--bind", "127.0.0.1:0"])


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        build = pathlib.Path(os.environ["TEST_BUILD"])
        output_of("cpack", "--config", build / "CPackConfig.cmake", "-B", cls.folder.name)
        [cls.package] = pathlib.Path(cls.folder.name).glob("tutti_*.deb")
        cls.root = pathlib.Path(cls.folder.name) / "root"
        output_of("dpkg", "-x", cls.package, cls.root)

    def field(self, name):
        return output_of("dpkg-deb", "-f", self.package, name).strip()

    def test_it_holds_what_a_server_needs_and_nothing_of_the_build(self):
        files = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        for file in (
            "usr/bin/tutti",
            "usr/share/tutti/models/tutti-en-mini/model.safetensors",
            "usr/lib/systemd/system/tutti.service",
            "etc/tutti/tutti.toml",
            "usr/share/doc/tutti/operations.md",
            "usr/share/doc/tutti/tutti.toml",
            "usr/share/doc/tutti/examples/haproxy.cfg",
        ):
            self.assertIn(file, files)
        elsewhere = re.compile(r"usr/(bin|lib/(systemd|tutti)|share/(doc|tutti))/|etc/tutti/")
        self.assertEqual([file for file in files if not elsewhere.match(file)], [])

    def test_its_program_finds_the_cuda_plugin_if_there_was_a_compiler_for_it(self):
        plugin = pathlib.Path("usr/lib/tutti/libtutti_cuda.so")
        built = pathlib.Path(os.environ["TEST_BUILD"]) / "bin" / plugin.name
        self.assertEqual((self.root / plugin).exists(), built.exists())
        command = [self.root / "usr/bin/tutti", "serve", "--check", "--device", "auto"]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual("no CUDA plugin" in checked.stdout + checked.stderr, not built.exists())

    def test_it_depends_on_the_libraries_of_the_program_and_no_development_packages(self):
        depends = self.field("Depends")
        self.assertRegex(depends, r"\blibc6\b")
        self.assertRegex(depends, r"\blibcaf-core")
        self.assertNotRegex(depends, r"-dev\b")
        self.assertEqual(self.field("Package"), "tutti")

    def test_a_configuration_that_was_edited_is_kept_by_an_upgrade(self):
        self.assertEqual(output_of("dpkg-deb", "-I", self.package, "conffiles"), "/etc/tutti/tutti.toml\n")

    def test_its_program_finds_its_model_and_recognizes(self):
        server = Installed(self.root)
        self.assertIn(f"{self.root}/usr/share/tutti/models/tutti-en-mini", server.read_log())
        events, code = asyncio.run(recognize(server, load_clips()[0][1]))
        self.assertEqual(code, 1000)
        self.assertTrue(transcript(events))
        server.terminate()
        server.expect_exit()


if __name__ == "__main__":
    unittest.main(verbosity=2)
