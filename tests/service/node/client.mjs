// A client written from docs/protocol.md alone, with nothing but Node's standard library (version 18 or later).
// node client.mjs URL CODE SETTINGS.json takes part in a study. SETTINGS has epsilon, delta, trusts, pinned, rewards, memory.
import * as crypto from "node:crypto";
import * as fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
export class Refused extends Error {}
const need = (kept, otherwise) => { if (!kept) throw new Refused(otherwise); };
export const hashed = (text) => crypto.createHash("sha256").update(text).digest("hex");
const hmac = (key, ...parts) => crypto.createHmac("sha256", key).update(Buffer.concat(parts.map(Buffer.from))).digest();
// ---- Sealing: HPKE (RFC 9180), base mode, X25519, HKDF-SHA256, AES-128-GCM ----
const KEM = Buffer.from("KEM\x00\x20", "latin1"), HPKE = Buffer.from("HPKE\x00\x20\x00\x01\x00\x01", "latin1");
const PKCS8 = Buffer.from("302e020100300506032b656e04220420", "hex"), SPKI = Buffer.from("302a300506032b656e032100", "hex");
const privateKey = (raw) => crypto.createPrivateKey({ key: Buffer.concat([PKCS8, raw]), format: "der", type: "pkcs8" });
const publicKey = (raw) => crypto.createPublicKey({ key: Buffer.concat([SPKI, raw]), format: "der", type: "spki" });
const rawPublic = (key) => crypto.createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
const extract = (suite, salt, label, key) => hmac(salt.length ? salt : Buffer.alloc(32), "HPKE-v1", suite, label, key);
const expand = (suite, secret, label, info, length) => hmac(secret, [0, length], "HPKE-v1", suite, label, info, [1]).subarray(0, length);
export function seal(reader, ephemeral, info, plaintext) {
  const own = privateKey(ephemeral), enc = rawPublic(own);
  const kem = extract(KEM, "", "eae_prk", crypto.diffieHellman({ privateKey: own, publicKey: publicKey(reader) }));
  const secret = expand(KEM, kem, "shared_secret", Buffer.concat([enc, reader]), 32);
  const context = Buffer.concat([[0], extract(HPKE, "", "psk_id_hash", ""), extract(HPKE, "", "info_hash", info)].map(Buffer.from));
  const root = extract(HPKE, secret, "secret", ""), nonce = expand(HPKE, root, "base_nonce", context, 12);
  const cipher = crypto.createCipheriv("aes-128-gcm", expand(HPKE, root, "key", context, 16), nonce);
  return Buffer.concat([enc, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}
// ---- Exact draws: every probability is a fraction of two BigInts ----
function below(bound) { // uniform in 0 … bound − 1, by rejection
  const bits = bound.toString(2).length, size = Math.ceil(bits / 8);
  for (;;) {
    const drawn = BigInt("0x" + crypto.randomBytes(size).toString("hex")) >> BigInt(8 * size - bits);
    if (drawn < bound) return drawn;
  }
}
const chance = (top, bottom) => below(bottom) < top;
function fraction(x) { // a binary64 as an exact fraction
  let bottom = 1n;
  for (; !Number.isInteger(x); x *= 2) bottom *= 2n;
  return [BigInt(x), bottom];
}
function exponential(top, bottom) { // a coin with probability exp(−top/bottom)
  for (; top > bottom; top -= bottom) if (!exponential(1n, 1n)) return false;
  let k = 1n;
  while (chance(top, bottom * k)) k += 1n;
  return k % 2n === 1n;
}
function laplace([top, bottom]) { // P(x) ∝ exp(−|x|·bottom/top) (Canonne, Kamath and Steinke 2020)
  for (;;) {
    const first = below(top);
    if (!exponential(first, top)) continue;
    let far = first;
    while (exponential(1n, 1n)) far += top;
    const found = far / bottom, negative = chance(1n, 2n);
    if (!(negative && found === 0n)) return negative ? -found : found;
  }
}
function gaussian([top, bottom]) { // P(x) ∝ exp(−x²/(2·scale²)), scale = top/bottom
  const n = top * top, d = bottom * bottom, t = top / bottom + 1n;
  for (;;) {
    const y = laplace([t, 1n]), far = (y < 0n ? -y : y) * d * t - n;
    if (exponential(far * far, 2n * n * d * t * t)) return y;
  }
}
const geometric = (scale, y = laplace(scale)) => (y >= 0n ? y : -1n - y);
function kNorm(scale, count) { // radius ∝ (2m + 1)^count·q^m, then a uniform point of the cube
  for (;;) {
    let m = geometric(scale), i = 1n;
    for (let j = 0; j < count; j++) m += geometric(scale);
    while (i <= count && chance(2n * m + 1n, 2n * (m + i))) i += 1n;
    if (i > count) return Array.from({ length: count }, () => below(2n * m + 1n) - m);
  }
}
function accepted(draw, odds) { // draws x until the coins with chances odds(1), …, odds(x) are all heads
  for (;;) {
    const x = draw();
    let i = 1n;
    while (i <= x && chance(...odds(i))) i += 1n;
    if (i > x) return x;
  }
}
const polya = (scale, n) => accepted(() => geometric(scale), (i) => [n * (i - 1n) + 1n, n * i]); // C(x + 1/n − 1, x)·q^x
function heads(x = 0n) { while (chance(1n, 2n)) x += 1n; return x; }
function poisson(top, bottom) { // a sum of variables with mean at most ½ and weights (2·mean)^x/x! against 2^−x
  let found = 0n;
  for (let parts = 2n * top / bottom + 1n, left = parts; left > 0n; left -= 1n) found += accepted(heads, (i) => [2n * top, parts * bottom * i]);
  return found;
}
function ones(bits) { // Bin(bits, ½)
  let found = 0n;
  for (let left = bits; left > 0; left -= 8)
    for (let byte = crypto.randomBytes(1)[0] >> Math.max(0, 8 - left); byte; byte >>= 1) found += BigInt(byte & 1);
  return found;
}
export const secure = {
  coin: (p) => chance(...fraction(p)),
  below, bytes: crypto.randomBytes, ephemeral: () => crypto.randomBytes(32),
  noise(m) {
    const each = (draw) => Array.from({ length: m.coordinates }, draw), scale = m.scale && fraction(m.scale);
    if (m.kind === "shuffled-bits") return each(() => ones(m.noise_bits));
    if (m.noise === "discrete-gaussian") return each(() => gaussian(scale));
    if (m.noise === "laplace") return each(() => laplace(scale));
    if (m.noise === "k-norm") return kNorm(scale, m.coordinates);
    const mean = [BigInt(Math.max(1, Math.round(2 ** 31 * m.scale ** 2))), 2n ** 32n];
    if (m.noise === "skellam") return each(() => poisson(...mean) - poisson(...mean));
    return each(() => polya(scale, BigInt(noisy(m))) - polya(scale, BigInt(noisy(m))));
  },
};
// ---- Plans: exact parsing, shape, terms, privacy ----
export function parse(text) { // integers above 2^53 become BigInts
  need(!text.includes("int:"), "unreadable plan");
  const marked = text.replace(/([:,[])(\d{16,})(?=[,\]}])/g, '$1"int:$2"');
  try {
    return JSON.parse(marked, (_, x) => (typeof x === "string" && x.startsWith("int:") ? exact(x.slice(4)) : x));
  } catch { throw new Refused("the plan is not JSON"); }
}
const exact = (digits) => (Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits));
const whole = (low, high) => (x) => (typeof x === "bigint" || Number.isSafeInteger(x)) && x >= low && x <= high;
const real = (low, high) => (x) => typeof x === "number" && x >= low && x <= high;
const among = (...names) => (x) => names.includes(x), listOf = (check) => (x) => Array.isArray(x) && x.every(check);
const COMMON = { kind: () => true, coordinates: whole(1, 2048), cohort: whole(1, 2 ** 40), bound: real(2 ** -60, 2 ** 60) };
const SHAPE = { shape: among("box", "ball") }, WEIGHTS = { top_weight: whole(1, 2n ** 62n), other_weight: whole(1, 2n ** 62n) };
const LATTICE = { ...COMMON, ...SHAPE, levels: whole(1, 2 ** 20), scale: real(2 ** -10, 2 ** 40), noise: among("discrete-gaussian", "laplace", "k-norm") };
const SHARED = { least_reports: whole(1, 2 ** 40), silent_share: real(0, 0.99) };
const KINDS = {
  "none": COMMON, "central-lattice": { ...LATTICE, noise: among("discrete-gaussian", "laplace", "k-norm", "ball-norm") }, "local-lattice": LATTICE,
  "local-list": { ...COMMON, ...SHAPE, ...WEIGHTS, size: whole(2, 4096), near: whole(1, 4095) },
  "local-band": { ...COMMON, ...SHAPE, ...WEIGHTS, levels: whole(1, 256), width: whole(1, 4096) },
  "shuffled-bits": { ...COMMON, ...SHARED, reach: real(2 ** -60, 2 ** 60), levels: whole(1, 2 ** 20), noise_bits: whole(1, 2 ** 40), noise_probability: real(0, 1) },
  "server-noise": { ...LATTICE, noise: among("server-gaussian"), least_reports: SHARED.least_reports },
  "summed-shares": { ...LATTICE, ...SHARED, noise: among("discrete-gaussian", "skellam", "polya"), largest_share: (x) => x === null || whole(1, 2 ** 50)(x) },
};
const NUMBER = real(-(2 ** 60), 2 ** 60), PLAN = {
  study: (x) => /^[0-9a-f]{64}$/.test(x), phase: whole(1, 2 ** 20), support: listOf(whole(0, 2 ** 40)), plays: listOf(whole(1, 1e15)), rank: whole(0, 2 ** 20),
  mechanism: (x) => x !== null && typeof x === "object", offsets: listOf(NUMBER), per_action: (x) => Array.isArray(x) && !x.length, mixing: listOf(listOf(NUMBER)),
};
function shaped(value, fields, what) {
  need(Object.keys(value).length === Object.keys(fields).length, `${what}: other fields than expected`);
  for (const [name, check] of Object.entries(fields)) need(name in value && check(value[name]), `${what}.${name}: not accepted`);
}
export const noisy = (m) => ("silent_share" in m ? Math.floor(m.least_reports * (1 - m.silent_share) + 1e-9) : 1);
const noiseOf = (m) => m.noise ?? { "none": "none", "shuffled-bits": "binomial" }[m.kind] ?? "list";
const distance = (m) => (m.shape === "ball" ? (m.levels + 2 * Math.sqrt(m.coordinates)) * (1 + 2 ** -30) : m.levels * Math.sqrt(m.coordinates));
function replaced(m, limit) { // q(L): the probability that noise of one report exceeds the limit
  const s = m.coordinates, x = limit + 1;
  if (m.noise === "laplace" || m.noise === "polya") return 2 * s * Math.exp(-x / m.scale);
  if (m.noise === "skellam") {
    const v = Math.max(1, Math.round(2 ** 31 * m.scale ** 2)) / 2 ** 31, u = x / v;
    return 2 * s * Math.exp(v * (Math.sqrt(1 + u * u) - 1) - x * Math.asinh(u));
  }
  if (m.noise === "k-norm") {
    const log = Math.log(-Math.expm1(-1 / m.scale));
    let term = -x / m.scale, sum = 0; // log P(0 successes in x trials)
    for (let k = 0; k <= Math.min(s, x); k++) { sum += Math.exp(term); term += Math.log((x - k) / (k + 1)) + log + 1 / m.scale; }
    return sum;
  }
  return 2 * s * Math.exp(-((x / m.scale) ** 2) / 2) + (m.shape === "ball" ? Math.exp(-((limit / m.scale) ** 2) / 2) : 0);
}
export function isPrivate(m, epsilon, delta) { // the section Checking (ε, δ)
  const s = m.coordinates, g = m.levels, n = noisy(m), noise = noiseOf(m);
  if (noise === "none") return false;
  if (noise === "list") return Math.log(Number(m.top_weight) / Number(m.other_weight)) <= epsilon;
  if (noise === "binomial") {
    if (m.noise_probability !== 0.5 || delta <= 0) return false;
    const all = n * m.noise_bits, t = Math.sqrt(all * Math.log(4 * s / delta) / 2), r = Math.sqrt(s * all * Math.log(2 / delta) / 2);
    const theta = 2 * (t + g) / (all + 1), c = theta ** 2 / (3 * (1 - theta ** 2));
    return theta < 1 && (2 * s * g * g + 4 * g * r + 4 * c * s * g * (t + g)) / (all + 1) <= epsilon;
  }
  if (m.largest_share != null) delta -= (1 + Math.exp(epsilon)) * m.cohort * replaced(m, m.largest_share);
  if (!(delta >= 0)) return false;
  if (noise === "k-norm" || noise === "ball-norm") return (noise === "k-norm" ? g : distance(m)) / m.scale <= epsilon;
  if (noise === "laplace" || noise === "polya") return s * g / m.scale <= epsilon;
  if (noise === "skellam") {
    const v = n * Math.max(1, Math.round(2 ** 31 * m.scale ** 2)) / 2 ** 31, rho = s * g * g / (2 * v), xi = 3 * s * g / (2 * v);
    const a = Math.max(2, Math.round((epsilon - xi + rho) / (2 * rho))); // the best order
    return Math.exp((a - 1) * (a * rho + xi - epsilon)) <= delta;
  }
  const h = n > 1 ? 7 * s * n * Math.exp(-((Math.PI * m.scale) ** 2)) : 0, rho = distance(m) ** 2 / (2 * n * m.scale ** 2);
  const left = epsilon - 2 * h - rho;
  return (n === 1 || m.scale >= 1) && left >= 0 && Math.exp(-(left ** 2) / (4 * rho)) <= delta * Math.exp(-h);
}
export function sumBits(m) { // undefined where this client does not compute it
  const bits = (x) => x.toString(2).length, cohort = BigInt(m.cohort);
  if (m.kind === "shuffled-bits") return bits(cohort * BigInt(m.levels + m.noise_bits));
  if (m.kind === "server-noise") return bits(cohort * BigInt(m.levels) + 2n * BigInt(Math.ceil(2 * m.scale * Math.sqrt(Math.log(2e12 * m.coordinates)))) + 1n);
  if (m.kind !== "summed-shares") return 63;
  return m.largest_share === null ? undefined : bits(cohort * (BigInt(m.levels) + 2n * BigInt(m.largest_share)) + 1n);
}
export function checkedPlan(task, text, terms, study, user) {
  need(hashed(text) === task.plan_digest, "the plan has another digest");
  const plan = parse(text), m = plan.mechanism;
  shaped(plan, PLAN, "plan");
  need(Object.hasOwn(KINDS, m.kind), "unknown kind of mechanism");
  shaped(m, KINDS[m.kind], m.kind);
  const numbers = plan.mixing.length || plan.support.length, noise = noiseOf(m);
  need(plan.support.length > 0 && [plan.plays, ...plan.mixing].every((row) => row.length === plan.support.length), "plays or mixing");
  need([0, numbers].includes(plan.offsets.length) && m.coordinates === numbers, "offsets or coordinates");
  need(plan.study === study && plan.phase === task.phase, "the plan belongs to another study or phase");
  need(terms.mechanisms.includes(m.kind) && terms.noises.includes(noise), "the terms do not list the mechanism");
  need(m.cohort <= terms.largest_cohort, "cohort");
  if (terms.trust === "shuffle") {
    need(m.least_reports >= terms.minimum_reports && m.least_reports <= m.cohort, "least_reports");
    need(m.kind === "server-noise" ? terms.mode !== "trusted" : m.silent_share >= terms.silent_share && noisy(m) >= 1, "silent_share");
  }
  need(m.shape !== "ball" || ["discrete-gaussian", "server-gaussian", "list"].includes(noise), "shape");
  if (m.kind === "local-list") need(numbers >= 2 && (m.size & (m.size - 1)) === 0 && m.near < m.size, "list");
  if (noise === "list") need(m.top_weight > m.other_weight && (m.kind !== "local-band" || numbers === 1), "weights or band");
  if (m.kind === "shuffled-bits") need(m.reach >= m.bound && m.noise_probability === 0.5, "bits");
  if (m.kind === "summed-shares") {
    need(m.largest_share !== null || noise === "polya", "largest_share");
    need(BigInt(m.cohort) * BigInt(m.levels + (m.largest_share ?? 0)) < 2n ** 62n, "sums");
  }
  const tries = Array.from({ length: 12 }, (_, i) => user.epsilon * 0.95 ** i); // a smaller ε implies the larger
  need(terms.trust === "none" || tries.some((epsilon) => isPrivate(m, epsilon, user.delta)), "privacy is not proved");
  need(task.sum_bits === undefined || (sumBits(m) ?? task.sum_bits) === task.sum_bits, "sum_bits");
  return plan;
}
// ---- Reports ----
const MASK = (1n << 64n) - 1n, GAMMA = 0x9e3779b97f4a7c15n, step = (x, shift, factor) => ((x ^ (x >> shift)) * factor) & MASK;
const mix = (x) => { x = step(step(x, 30n, 0xbf58476d1ce4e5b9n), 27n, 0x94d049bb133111ebn); return x ^ (x >> 31n); };
const inner = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const unit = (a, length = Math.hypot(...a)) => a.map((x) => x / length);
function direction(seed, j, d) {
  const h = Math.ceil(d / 2), start = mix((seed + GAMMA) & MASK), found = [];
  const word = (i) => Number(mix((start + BigInt(2 * h * j + i + 1) * GAMMA) & MASK) >> 11n);
  for (let i = 0; i < 2 * h; i += 2) {
    const r = Math.sqrt(-2 * Math.log((word(i) + 1) / 2 ** 53)), angle = (2 * Math.PI * word(i + 1)) / 2 ** 53;
    found.push(r * Math.cos(angle), r * Math.sin(angle));
  }
  return unit(found.slice(0, d));
}
function fromList(m, z, source) {
  const d = z.length, radius = m.shape === "ball" ? m.bound : m.bound * Math.sqrt(d), w = z.map((x) => x / radius);
  const length = Math.min(Math.hypot(...w), 1), toward = length > 0 ? unit(w) : w.map((_, i) => Number(i === 0));
  const t = length + (source.coin(0.5) ? 1 : -1) * Math.sqrt(Math.max(0, 1 / d - length ** 2));
  const other = direction(source.below(1n << 62n), 0, d), along = inner(other, toward);
  const across = unit(other.map((x, i) => x - along * toward[i])), v = toward.map((x, i) => t * x + Math.sqrt(1 - t * t) * across[i]);
  const seed = source.below(1n << 48n), scores = Array.from({ length: m.size }, (_, j) => inner(direction(seed, j, d), v));
  const ranked = scores.map((_, j) => j).sort((a, b) => scores[b] - scores[a] || a - b);
  const near = BigInt(m.near), top = BigInt(m.top_weight), rest = BigInt(m.other_weight);
  const x = source.below(near * top + (BigInt(m.size) - near) * rest), beyond = x - near * top;
  return [seed * BigInt(m.size) + BigInt(ranked[Number(beyond < 0n ? x / top : near + beyond / rest)])];
}
function fromBand(m, e, source) {
  const width = BigInt(m.width), top = BigInt(m.top_weight), rest = BigInt(m.other_weight);
  const x = source.below(width * top + BigInt(m.levels) * rest), outside = (x - width * top) / rest;
  return [x < width * top ? e + x / top : outside < e ? outside : outside + width];
}
function limited(m, report) { // the centre of the grid in place of a report that no receiver accepts
  let limit = m.largest_share ?? 1;
  if (m.kind === "local-lattice") while (replaced(m, limit) * (1 + 1e-9) > 1e-12) limit += 1;
  const low = BigInt(-limit), high = BigInt(m.levels + limit), far = (distance(m) + 2 * m.scale * Math.sqrt(m.coordinates) + 2 * limit) ** 2;
  const square = report.reduce((sum, x) => sum + (2n * x - BigInt(m.levels)) ** 2n, 0n);
  const inside = report.every((x) => x >= low && x <= high) && (m.shape !== "ball" || square <= BigInt(Math.floor(far)));
  return inside ? report : report.map(() => BigInt(m.levels) / 2n);
}
export function reportOf(plan, averages, source, bits) { // the numbers of the report, before packing
  const m = plan.mechanism, y = averages.map((x) => (Number.isNaN(x) ? 0 : Math.min(Math.max(x, -(2 ** 60)), 2 ** 60)));
  const mixed = plan.mixing.length ? plan.mixing.map((row) => inner(row, y)) : y;
  let z = mixed.map((x, i) => x - (plan.offsets[i] ?? 0));
  const length = Math.hypot(...z);
  z = z.map((x) => (m.shape === "ball" ? (x * m.bound) / Math.max(m.bound, length) : Math.min(Math.max(x, -m.bound), m.bound)));
  if (["none", "local-list"].includes(m.kind)) return m.kind === "none" ? z : fromList(m, z, source);
  const reach = m.reach ?? m.bound;
  const e = z.map((x) => {
    const p = Math.min(Math.max(((x + reach) * m.levels) / (2 * reach), 0), m.levels), f = Math.min(Math.floor(p), m.levels - 1);
    return BigInt(f) + (source.coin(p - f) ? 1n : 0n);
  });
  if (["central-lattice", "server-noise"].includes(m.kind)) return e;
  if (m.kind === "local-band") return fromBand(m, e[0], source);
  const noise = source.noise(m), sent = e.map((x, i) => x + noise[i]);
  if (m.kind === "shuffled-bits") return sent;
  return m.largest_share === null ? sent.map((x) => BigInt.asIntN(bits, x)) : limited(m, sent);
}
export function pack(m, report) {
  const width = m.kind === "shuffled-bits" ? m.levels + m.noise_bits : 64, data = Buffer.alloc(Math.ceil((width * report.length) / 8));
  report.forEach((x, i) => {
    if (m.kind === "none") data.writeDoubleLE(x, 8 * i);
    else if (m.kind !== "shuffled-bits") data.writeBigInt64LE(x, 8 * i);
    else for (let j = i * width; j < i * width + Number(x); j++) data[j >> 3] |= 128 >> (j & 7);
  });
  return data;
}
export function shares(report, bits, random) {
  const one = Buffer.alloc(random.length), other = Buffer.alloc(random.length);
  report.forEach((x, i) => {
    const first = BigInt.asUintN(bits, random.readBigUInt64LE(8 * i));
    one.writeBigInt64LE(first, 8 * i);
    other.writeBigInt64LE(BigInt.asUintN(bits, x - first), 8 * i);
  });
  return [one, other];
}
export const infoOf = (purpose, study, phase, attempt, plan, pseudonym) => Buffer.from(["dpbandits v1", purpose, study, phase, attempt, plan, pseudonym].join("\n"));
export const tagged = (share, info, token) => Buffer.concat([share, hmac(Buffer.from(hashed(token), "hex"), info, "\n", share)]);
export function sealedReport(plan, task, terms, memory, averages, source) {
  const bits = sumBits(plan.mechanism) ?? task.sum_bits, report = reportOf(plan, averages, source, bits);
  const info = (purpose) => infoOf(purpose, plan.study, plan.phase, task.attempt, task.plan_digest, hashed(memory.ticket));
  const key = (party) => Buffer.from(party.key, "hex");
  if (terms.mode !== "split") return seal(key(terms.shuffler ?? terms.coordinator), source.ephemeral(), info("report"), pack(plan.mechanism, report));
  const [one, other] = shares(report, bits, source.bytes(8 * report.length)), bound = tagged(other, info("share-coordinator"), memory.token);
  return Buffer.concat([seal(key(terms.shuffler), source.ephemeral(), info("share-shuffler"), one),
    seal(key(terms.coordinator), source.ephemeral(), info("share-coordinator"), bound)]);
}
// ---- The exchange ----
export function agreed(about, user) {
  const terms = JSON.parse(about.terms), version = user.conformance ? "dpbandits conformance v1" : "dpbandits terms v1";
  need(hashed(about.terms) === about.study && (about.study === user.pinned || terms.trust !== "shuffle" && !user.pinned), "these are other terms");
  need(Object.keys(terms).length === 15 && terms.version === version && user.trusts.includes(terms.trust), "version or trust");
  need(terms.trust === "none" || (terms.epsilon <= user.epsilon && terms.delta <= user.delta), "the terms promise too little");
  need([...about.features, `mode/${terms.mode}`].every((one) => ["mode/", "mode/trusted", "mode/split"].includes(one) || Object.hasOwn(KINDS, one.split("/")[0])), `this client lacks one of ${about.features}`);
  return terms;
}
async function http(method, url, secret, body, tries = 10) {
  for (let wait = 100; ; wait = Math.min(2 * wait, 5000)) {
    const reply = await fetch(url, { method, headers: secret ? { Authorization: `Bearer ${secret}` } : {}, body }).catch(() => null);
    if (reply && ![408, 429, 500, 502, 503, 504].includes(reply.status)) {
      need(reply.ok, `${method} ${url}: ${reply.status} ${reply.ok ? "" : await reply.text()}`);
      return reply.status === 204 ? null : reply.json();
    }
    need(--tries > 0, `${url} does not answer`);
    await sleep(wait * (0.5 + Math.random() / 2));
  }
}
export async function takePart(url, code, user, averagesOf, memory, save, source = secure) {
  const about = await http("GET", `${url}/v1/study`), terms = agreed(about, user);
  need(!memory.terms || memory.terms === about.study, "the terms have changed");
  save(Object.assign(memory, { terms: about.study }));
  await http("POST", `${url}/v1/clients`, code, JSON.stringify({ token: hashed(memory.token) }));
  for (let plan = null, have = ""; ;) {
    const task = await http("POST", `${url}/v1/tasks`, memory.token, JSON.stringify({ pseudonym: hashed(memory.ticket), have }));
    if (task.plan !== null) { plan = checkedPlan(task, task.plan, terms, about.study, user); have = task.plan_digest; }
    if (task.state === "over" || task.state === "ended") return { state: task.state, reported: task.reported ?? !!memory.sent };
    if (task.state === "report") {
      memory.sealed ??= sealedReport(plan, task, terms, memory, averagesOf(plan), source).toString("base64");
      save(memory); // before anything is sent: a second report with new noise would reveal more
      const place = `${(terms.shuffler?.url ?? url).replace(/\/$/, "")}/v1/phases/${task.phase}/attempts/${task.attempt}/reports`;
      await http("POST", place, memory.ticket, Buffer.from(memory.sealed, "base64"));
      save(Object.assign(memory, { sent: true }));
      return { state: "sent", reported: true, kind: plan.mechanism.kind, noise: noiseOf(plan.mechanism), seconds_left: task.seconds_left };
    }
    await sleep(1000 * task.poll_seconds);
  }
}
if (import.meta.url === pathToFileURL(process.argv[1] ?? ".").href) {
  const [url, code, file] = process.argv.slice(2), user = JSON.parse(fs.readFileSync(file, "utf8")), kept = `${user.memory}.${hashed(code)}`;
  const secret = () => crypto.randomBytes(32).toString("base64url"), save = (memory) => fs.writeFileSync(kept, JSON.stringify(memory), { mode: 0o600, flush: true });
  const memory = fs.existsSync(kept) ? JSON.parse(fs.readFileSync(kept, "utf8")) : { token: secret(), ticket: secret() };
  save(memory);
  console.log(JSON.stringify(await takePart(url, code, user, (plan) => plan.support.map((action) => user.rewards[action]), memory, save)));
}
