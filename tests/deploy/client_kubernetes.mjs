// The manifests of deploy/kubernetes against the schemas of the objects that they describe.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { Deployment } from "kubernetes-models/apps/v1";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Service } from "kubernetes-models/v1";
import { parseAllDocuments } from "yaml";

const FOLDER = new URL("../../deploy/kubernetes/", import.meta.url);
const KINDS = { ConfigMap, Deployment, HorizontalPodAutoscaler, PodDisruptionBudget, Service };

function objects() {
  return readdirSync(FOLDER).flatMap((file) =>
    parseAllDocuments(readFileSync(new URL(file, FOLDER), "utf8")).map((document) => document.toJS()),
  );
}

function validate(object) {
  new KINDS[object.kind](object).validate();
}

test("every object is what Kubernetes' schemas say", () => {
  assert.equal(objects().length, 5);
  for (const object of objects()) validate(object);
});

test("an object that is not would be told", () => {
  const deployment = objects().find((object) => object.kind === "Deployment");
  deployment.spec.template.spec.containers[0].ports[0].containerPort = "http";
  assert.throws(() => validate(deployment), /containerPort must be integer/);
});
