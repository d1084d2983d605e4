"""The files of deploy/ against the programs that read them and a running server.

The environment is that of tutti_server.py.
"""
import asyncio
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import websockets
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "net"))
from client_websockets import Server, load_clips, next_event, recognize  # noqa: E402
from tutti_server import PROGRAM, SPEECH, wait_until  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"\btutti_\w+")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def dashboard_expressions():
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def alert_expressions():
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def kubernetes(name):
    """The objects of a file, by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text())}


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".secret") as secret:
            secret.write("0123456789abcdef")
            secret.flush()
            cls.server = Server("--owners", "1", "--max-streams", "1", "--callback-url", "https://127.0.0.1:1/",
                                "--callback-secret-file", secret.name)
        asyncio.run(cls.use_it())
        wait_until(lambda: "tutti_uploads_total" in cls.server.get("/metrics")[1], "the upload has ended")
        cls.text = cls.server.get("/metrics")[1]
        cls.names = set(re.findall(r"^(\w+)(?:\{| )", cls.text, re.MULTILINE))

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.expect_exit()

    @classmethod
    async def use_it(cls):
        """What has labels is shown from its first time on."""
        await recognize(cls.server, load_clips()[0][1])
        async with cls.server.connect("encoding=unheard") as refused:
            await next_event(refused, "error")
        async with cls.server.connect() as only:
            await next_event(only, "ready")
            with contextlib.suppress(websockets.InvalidStatusCode):
                async with cls.server.connect():
                    raise AssertionError("there was a place for one more")
        cls.server.get("/v1/streams/none/events")
        connection = http.client.HTTPConnection(cls.server.address, timeout=60)
        connection.request("POST", "/v1/audio/transcriptions", (SPEECH / "libri-02.flac").read_bytes(),
                           {"Content-Type": "audio/flac"})
        assert connection.getresponse().status == 200
        connection.close()

    def test_every_metric_of_dashboard_and_alerts_is_one_of_a_running_server(self):
        for source, expressions in (("grafana.json", dashboard_expressions()), ("alerts.yml", alert_expressions())):
            used = set(METRIC.findall("\n".join(expressions)))
            self.assertGreater(len(used), 5, source)
            self.assertEqual(used - self.names, set(), source)

    def test_the_autoscaler_counts_with_metrics_of_a_running_server(self):
        rules = yaml.safe_load(kubernetes("autoscaler.yaml")["ConfigMap"]["data"]["config.yaml"])["rules"]
        used = set(METRIC.findall(rules[0]["seriesQuery"] + rules[0]["metricsQuery"]))
        self.assertEqual(used - self.names, set())
        metric = kubernetes("autoscaler.yaml")["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["metric"]
        self.assertEqual(metric["name"], rules[0]["name"]["as"])

    def test_prometheus_reads_the_metrics_and_finds_their_names_in_order(self):
        run("promtool", "check", "metrics", input=self.text)


class PrometheusTest(unittest.TestCase):
    def test_alerts_fire_when_they_should_and_only_then(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DEPLOY / "alerts.yml", folder)
            shutil.copy(pathlib.Path(__file__).parent / "alerts_test.yml", folder)
            self.assertIn("SUCCESS", run("promtool", "check", "rules", "alerts.yml", cwd=folder))
            self.assertIn("SUCCESS", run("promtool", "test", "rules", "alerts_test.yml", cwd=folder))

    def test_prometheus_understands_every_expression_of_the_dashboard(self):
        # What Grafana puts in.
        expressions = [
            expression.replace("$__rate_interval", "1m").replace("$instance", ".*") for expression in dashboard_expressions()
        ]
        rules = [{"record": f"panel:{at}", "expr": expression} for at, expression in enumerate(expressions)]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            self.assertIn(f"{len(rules)} rules found", run("promtool", "check", "rules", file.name))

    def test_the_panels_of_the_dashboard_do_not_overlap(self):
        panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
        taken = [
            (x, y)
            for place in (panel["gridPos"] for panel in panels)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        self.assertEqual(len(taken), len(set(taken)))
        self.assertLess(max(x for x, _ in taken), 24)
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))


class UnitTest(unittest.TestCase):
    def unit(self, folder):
        """With this program, which systemd looks for."""
        text = (DEPLOY / "tutti.service").read_text()
        path = pathlib.Path(folder) / "tutti.service"
        path.write_text(text.replace("/usr/bin/tutti", os.path.realpath(PROGRAM)))
        return path

    def test_systemd_understands_the_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            run("systemd-analyze", "verify", "--man=no", self.unit(folder))

    def test_the_service_may_do_little(self):
        with tempfile.TemporaryDirectory() as folder:
            run("systemd-analyze", "security", "--offline=true", "--threshold=20", self.unit(folder))

    def test_what_the_package_configures_is_a_configuration(self):
        text = run(PROGRAM, "serve", "--config", DEPLOY / "debian/tutti.toml", "--print-config")
        self.assertEqual(text, run(PROGRAM, "serve", "--print-config"))
        # Nor does what is commented out name options that there are not.
        options = re.findall(r"^(?:# )?(\w+) = ", (DEPLOY / "debian/tutti.toml").read_text(), re.MULTILINE)
        for option in options:
            self.assertRegex(text, rf"(?m)^{option} = ")

    def test_shells_understand_the_scripts_of_the_package(self):
        for script in ("postinst", "prerm", "postrm"):
            run("sh", "-n", DEPLOY / "debian" / script)


class KubernetesTest(unittest.TestCase):
    def setUp(self):
        self.objects = kubernetes("tutti.yaml")
        self.pod = self.objects["Deployment"]["spec"]["template"]
        [self.container] = self.pod["spec"]["containers"]

    def test_every_selector_finds_the_pods(self):
        labels = self.pod["metadata"]["labels"]
        self.assertEqual(self.objects["Deployment"]["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(self.objects["Service"]["spec"]["selector"], labels)
        self.assertEqual(self.objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], labels)
        [spread] = self.pod["spec"]["topologySpreadConstraints"]
        self.assertEqual(spread["labelSelector"]["matchLabels"], labels)

    def test_the_autoscaler_scales_this_deployment(self):
        target = kubernetes("autoscaler.yaml")["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
        deployment = self.objects["Deployment"]
        self.assertEqual(
            (target["apiVersion"], target["kind"], target["name"]),
            (deployment["apiVersion"], deployment["kind"], deployment["metadata"]["name"]),
        )
        # How many there are is for it to say, whenever the file is applied again.
        self.assertNotIn("replicas", deployment["spec"])

    def test_probes_ask_what_the_server_answers(self):
        server = Server("--owners", "1")
        try:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertEqual(server.get(self.container[probe]["httpGet"]["path"])[0], 200, probe)
        finally:
            server.terminate()
            server.expect_exit()

    def test_a_pod_is_left_alone_until_its_streams_have_ended(self):
        environment = {each["name"]: each["value"] for each in self.container["env"]}
        wait, drain = self.container["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(wait, "sleep")
        self.assertGreater(
            self.pod["spec"]["terminationGracePeriodSeconds"],
            int(drain) + int(environment["TUTTI_SERVER_GRACE_S"]),
        )

    def test_the_container_serves_as_it_is_configured(self):
        environment = {each["name"]: each["value"] for each in self.container["env"]}
        # Its keys are a secret of the cluster.
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as keys:
            keys.write(re.search(r"^\w+ = .*$", run(PROGRAM, "keygen", "alice"), re.MULTILINE)[0] + "\n")
            keys.flush()
            environment["TUTTI_SERVER_API_KEYS_FILE"] = keys.name
            shown = run(PROGRAM, *self.container["args"], "--print-config", env=environment)
        self.assertIn('bind = "0.0.0.0:8080"', shown)
        [port] = self.container["ports"]
        self.assertEqual(port["containerPort"], 8080)
        [mount], [volume] = self.container["volumeMounts"], self.pod["spec"]["volumes"]
        self.assertEqual(mount["name"], volume["name"])

    def test_the_container_runs_as_nobody_in_particular(self):
        self.assertTrue(self.pod["spec"]["securityContext"]["runAsNonRoot"])
        self.assertFalse(self.container["securityContext"]["allowPrivilegeEscalation"])
        user = self.pod["spec"]["securityContext"]["runAsUser"]
        self.assertIn(f"USER {user}:", (DEPLOY / "Dockerfile").read_text())


class KubernetesClusterTest(unittest.TestCase):
    """Gateways and engines."""

    ADDRESS = "10.1.2.3"

    def setUp(self):
        self.engines = kubernetes("cluster/engines.yaml")
        self.gateways = kubernetes("cluster/gateways.yaml")

    def container(self, objects):
        [container] = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
        return container

    def environment(self, objects):
        """As the pod has it."""
        variables = {each["name"]: each.get("value", self.ADDRESS) for each in self.container(objects)["env"]}
        address = variables.pop("POD_IP", "")
        return {name: value.replace("$(POD_IP)", address) for name, value in variables.items()}

    def test_every_selector_finds_the_pods(self):
        for objects in (self.engines, self.gateways):
            deployment = objects["Deployment"]["spec"]
            labels = deployment["template"]["metadata"]["labels"]
            self.assertEqual(deployment["selector"]["matchLabels"], labels)
            self.assertEqual(objects["Service"]["spec"]["selector"], labels)
            self.assertEqual(objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], labels)
        policy = self.engines["NetworkPolicy"]["spec"]
        self.assertEqual(policy["podSelector"]["matchLabels"],
                         self.engines["Deployment"]["spec"]["template"]["metadata"]["labels"])
        self.assertEqual(policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"],
                         self.gateways["Deployment"]["spec"]["template"]["metadata"]["labels"])

    def test_gateways_look_for_engines_where_they_are(self):
        service = self.engines["Service"]
        [port] = service["spec"]["ports"]
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertEqual(self.environment(self.gateways)["TUTTI_CLUSTER_ENGINES"],
                         f"{service['metadata']['name']}:{port['port']}")
        ports = {each["name"]: each["containerPort"] for each in self.container(self.engines)["ports"]}
        self.assertEqual(self.environment(self.engines)["TUTTI_CLUSTER_BIND"],
                         f"{self.ADDRESS}:{ports[port['targetPort']]}")

    def test_the_files_of_the_options_are_mounted(self):
        for objects in (self.engines, self.gateways):
            mounts = {each["name"]: each["mountPath"] for each in self.container(objects)["volumeMounts"]}
            volumes = objects["Deployment"]["spec"]["template"]["spec"]["volumes"]
            self.assertEqual(set(mounts), {each["name"] for each in volumes})
            for value in self.environment(objects).values():
                if value.startswith("/"):
                    self.assertIn(os.path.dirname(value), mounts.values())

    def test_the_containers_serve_as_they_are_configured(self):
        for objects, role in ((self.engines, "engine"), (self.gateways, "gateway")):
            environment = self.environment(objects)
            shown = run(PROGRAM, *self.container(objects)["args"], "--print-config", env=environment)
            self.assertIn(f'role = "{role}"', shown)
            for name, value in environment.items():
                self.assertIn(value, shown, name)

    def test_a_gateway_is_left_alone_until_its_streams_have_ended(self):
        wait, drain = self.container(self.gateways)["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(wait, "sleep")
        self.assertGreater(
            self.gateways["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
            int(drain) + int(self.environment(self.gateways)["TUTTI_SERVER_GRACE_S"]),
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
