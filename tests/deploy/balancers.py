"""HAProxy and nginx with the configurations of deploy/, other ports put in, in front of instances of the program."""
import http.client
import pathlib
import re
import socket
import subprocess
import tempfile

from tutti_server import free_port, wait_until

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
INSTANCES = ("a", "b", "c")


def substitute(pattern, replacement, text, count):
    """All matches of a line of a configuration, which has to have as many as the test counts on."""
    text, found = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    assert found == count, f"{found} lines are {pattern}, not {count}"
    return text


class Balancer:
    """A balancer's process, reached at `address`."""

    def __init__(self, addresses):
        self.addresses = dict(zip(INSTANCES, addresses))
        self.folder = tempfile.TemporaryDirectory()
        # Workers of another user look into it.
        pathlib.Path(self.folder.name).chmod(0o755)
        self.address = f"127.0.0.1:{free_port()}"
        self.log = open(self.path("log"), "w+")
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_until(self.passes_requests, f"{type(self).__name__} passes requests on:\n{self.read_log()}", 20)

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def read_log(self):
        return self.path("log").read_text()

    def passes_requests(self):
        assert self.process.poll() is None, self.read_log()
        try:
            return self.get("/readyz") == 200
        except OSError:
            return False

    def get(self, path, headers={}):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()
        self.folder.cleanup()


class HAProxy(Balancer):
    def configuration(self):
        return (DEPLOY / "haproxy.cfg").read_text()

    def command(self):
        text = self.configuration()
        # Whoever runs the tests keeps being who it is.
        text = substitute(r"^    (user|group) haproxy\n", "", text, 2)
        # Two descriptors each, of which a test may be allowed 1024.
        text = substitute(r"^    maxconn 20000$", "    maxconn 400", text, 1)
        text = substitute(r"stats socket /run/haproxy/admin.sock", f"stats socket {self.path('admin')}", text, 1)
        text = substitute(r"^    bind :8080$", f"    bind {self.address}", text, 1)
        for name in INSTANCES:
            line = f"    server {name} {self.addresses[name]}\n" if name in self.addresses else ""
            text = substitute(rf"^    server {name} \S+\n", line, text, 1)
        self.path("haproxy.cfg").write_text(text)
        return ["/usr/sbin/haproxy", "-db", "-f", self.path("haproxy.cfg")]

    def ask(self, command):
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self.path("admin")))
            admin.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode()

    def take_out(self, name):
        """No new sessions for an instance; it keeps those it has."""
        self.ask(f"set server tutti/{name} state drain")

    def put_back(self, name):
        self.ask(f"set server tutti/{name} state ready")
        self.wait_for(name)

    def wait_for(self, name):
        """Until an instance that was started anew gets sessions again."""
        wait_until(lambda: self.status(name) == "UP", f"HAProxy finds {name} ready")

    def status(self, name):
        header, *rows = self.ask("show stat").lstrip("# ").splitlines()
        fields = header.split(",")
        for row in rows:
            server = dict(zip(fields, row.split(",")))
            if (server.get("pxname"), server.get("svname")) == ("tutti", name):
                return server["status"]
        raise AssertionError(f"HAProxy knows no {name}")


class HAProxyWithHeader(HAProxy):
    """Tells whose a connection is in the PROXY protocol."""

    def configuration(self):
        text = substitute(r"^    option forwardfor\n", "", super().configuration(), 1)
        return substitute(r"^    # (default-server send-proxy-v2 check-send-proxy)$", r"    \1", text, 1)


class Nginx(Balancer):
    def command(self):
        self.write_configuration()
        return ["/usr/sbin/nginx", "-p", self.folder.name, "-c", self.path("nginx.conf")]

    def write_configuration(self, without=None):
        text = (DEPLOY / "nginx.conf").read_text()
        text = substitute(r"^    listen 8080;$", f"    listen {self.address};", text, 1)
        for place, (name, address) in enumerate(self.addresses.items(), 8081):
            down = " down" if name == without else ""
            text = substitute(rf"^    server 127.0.0.1:{place} (.*);$", rf"    server {address} \1{down};", text, 1)
        self.path("tutti.conf").write_text(text)
        temporary = "\n".join(
            f"    {kind}_temp_path {self.path(kind)};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        self.path("nginx.conf").write_text(
            f"""daemon off;
error_log stderr notice;
pid {self.path("pid")};
worker_processes 2;
events {{ worker_connections 1024; }}
http {{
    access_log off;
{temporary}
    include {self.path("tutti.conf")};
}}
"""
        )

    def reload(self):
        """What has a session keeps it: workers of before the reload serve it to its end."""
        before = self.read_log().count("start worker process ")
        self.process.send_signal(1)
        wait_until(lambda: self.read_log().count("start worker process ") >= before + 2, "nginx has new workers")
        # They accept, and those of before no longer do.
        exits = "gracefully shutting down"
        wait_until(lambda: self.read_log().count(exits) >= before, "nginx's workers of before take no more")

    def take_out(self, name):
        self.write_configuration(without=name)
        self.reload()

    def put_back(self, name):
        self.write_configuration()
        self.reload()

    def wait_for(self, name):
        """The next session finds out."""
