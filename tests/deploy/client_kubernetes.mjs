// The manifests of deploy/kubernetes against the schemas of the objects that they describe.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { Deployment } from "kubernetes-models/apps/v1";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Service } from "kubernetes-models/v1";
import { parseAllDocuments } from "yaml";

const FOLDERS = ["", "cluster/"].map((name) => new URL(`../../deploy/kubernetes/${name}`, import.meta.url));
const KINDS = { ConfigMap, Deployment, HorizontalPodAutoscaler, NetworkPolicy, PodDisruptionBudget, Service };

function objects() {
  return FOLDERS.flatMap((folder) =>
    readdirSync(folder)
      .filter((file) => file.endsWith(".yaml"))
      .flatMap((file) => parseAllDocuments(readFileSync(new URL(file, folder), "utf8")))
      .map((document) => document.toJS()),
  );
}

function validate(object) {
  new KINDS[object.kind](object).validate();
}

test("every object is what Kubernetes' schemas say", () => {
  assert.equal(objects().length, 12);
  for (const object of objects()) validate(object);
});

test("an object that is not would be told", () => {
  const deployment = objects().find((object) => object.kind === "Deployment");
  deployment.spec.template.spec.containers[0].ports[0].containerPort = "http";
  assert.throws(() => validate(deployment), /containerPort must be integer/);
});
