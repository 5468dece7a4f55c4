// Checks client.mjs against ../vectors/*.json, and prints one line per file: node check_vectors.mjs DIRECTORY
import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import * as client from "./client.mjs";

const read = (name) => JSON.parse(fs.readFileSync(path.join(process.argv[2], `${name}.json`), "utf8"));
const hex = (text) => Buffer.from(text, "hex");

function given(inputs) { // a source of randomness that returns the numbers of a vector
  const uniforms = [...inputs.uniforms], below = inputs.below.map(BigInt);
  const keys = (inputs.ephemeral_private_keys ?? []).map(hex);
  const [draw, minus] = inputs.draws;
  return {
    coin: (p) => uniforms.shift() < p,
    below: (bound) => { const x = below.shift(); assert.ok(x < bound); return x; },
    noise: () => draw.map((x, i) => BigInt(x) - BigInt(minus?.[i] ?? 0)),
    bytes: (size) => hex(inputs.random).subarray(0, size),
    ephemeral: () => keys.shift(),
  };
}

const checks = {
  secrets(case_) { assert.equal(client.hashed(case_.secret), case_.hash); },
  sealing(case_) {
    const info = client.infoOf(case_.purpose, case_.study, case_.phase, case_.attempt, case_.plan, case_.pseudonym);
    assert.equal(info.toString("hex"), case_.info);
    const sealed = client.seal(hex(case_.public_key), hex(case_.ephemeral_private_key), info, hex(case_.plaintext));
    assert.equal(sealed.toString("hex"), case_.sealed);
  },
  reports(case_) {
    assert.equal(client.hashed(case_.plan), case_.plan_digest);
    const plan = client.parse(case_.plan), bits = client.sumBits(plan.mechanism) ?? case_.sum_bits;
    const report = client.reportOf(plan, case_.averages.map(Number), given(case_), bits);
    assert.equal(client.pack(plan.mechanism, report).toString("hex"), case_.plaintext);
    assert.equal(case_.body_bytes, hex(case_.plaintext).length + 48);
    if (!("random" in case_)) return;
    assert.equal(bits, case_.sum_bits);
    const [one, other] = client.shares(report, bits, hex(case_.random));
    assert.equal(one.toString("hex"), case_.share_shuffler);
    assert.equal(other.toString("hex"), case_.share_coordinator);
    const info = client.infoOf("share-coordinator", plan.study, 2, case_.attempt, case_.plan_digest, client.hashed(case_.ticket));
    assert.equal(client.tagged(other, info, case_.token).toString("hex"), case_.bound_share_coordinator);
  },
  plans(case_) {
    const terms = JSON.parse(case_.terms), user = { epsilon: 1, delta: 1e-6 };
    const check = () => client.checkedPlan(case_, case_.plan, terms, client.hashed(case_.terms), user);
    if (case_.accept) check();
    else assert.throws(check, client.Refused);
  },
  async exchanges(case_) {
    const steps = [...case_.steps], seen = [], real = globalThis.fetch;
    const memory = { token: case_.token, ticket: case_.ticket }, about = steps[0].reply;
    globalThis.fetch = async (url, { method, headers, body }) => { // a server that expects exactly these requests
      const step = steps.shift();
      assert.equal(url, `https://${step.to}.test${step.path}`);
      assert.equal(method, step.method);
      assert.equal(headers.Authorization ?? "", step.secret && `Bearer ${step.secret}`);
      if ("body_hex" in step) assert.equal(Buffer.from(body).toString("hex"), step.body_hex);
      else assert.deepEqual(body === undefined ? null : JSON.parse(body), step.body);
      seen.push(step.path);
      return { ok: true, status: step.status, json: async () => step.reply };
    };
    const trust = JSON.parse(about.terms).trust;
    const user = { epsilon: 1, delta: 1e-6, trusts: [trust], pinned: about.study };
    const features = [...about.features, "reward-range"]; // the client lacks one feature, and must not enrol
    steps.unshift({ ...case_.steps[0], reply: { ...about, features } });
    await assert.rejects(client.takePart("https://coordinator.test", case_.code, user, () => case_.averages, memory, () => {}, given(case_)), client.Refused);
    assert.deepEqual(seen.splice(0), ["/v1/study"]);
    const found = await client.takePart("https://coordinator.test", case_.code, user, () => case_.averages, memory, () => {}, given(case_));
    globalThis.fetch = real;
    assert.equal(found.state, "sent");
    assert.equal(seen.length, case_.steps.length);
  },
};

for (const [name, check] of Object.entries(checks)) {
  const cases = read(name);
  for (const case_ of cases) {
    try { await check(case_); } catch (error) {
      throw new Error(`${name}: ${case_.name ?? case_.purpose ?? case_.what}`, { cause: error });
    }
  }
  console.log(`${name}: ${cases.length} vectors`);
}
