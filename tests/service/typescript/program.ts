// What a program in TypeScript does with a plan: every field has a type, and `kind` selects the mechanism.
import type { components, operations } from "./types";

type Schemas = components["schemas"];
type Plan = Schemas["Plan"];
type Mechanism = Schemas["Mechanism"];
type Results = operations["get_v1_results"]["responses"][200]["content"]["application/json"];

export function noise(mechanism: Mechanism): number {
  const shared: number = mechanism.coordinates * mechanism.cohort * mechanism.bound;
  switch (mechanism.kind) {
    case "none": return shared;
    case "central-lattice": return mechanism.levels * mechanism.scale + mechanism.noise.length + mechanism.shape.length;
    case "server-noise": return mechanism.levels * mechanism.scale * mechanism.least_reports + mechanism.noise.length;
    case "local-lattice": return mechanism.levels * mechanism.scale + mechanism.noise.length + mechanism.shape.length;
    case "summed-shares": return mechanism.levels * mechanism.scale * mechanism.least_reports + mechanism.noise.length;
    case "shuffled-bits": return mechanism.levels * mechanism.noise_bits * mechanism.least_reports;
    case "local-list": return mechanism.size * mechanism.near;
    case "local-band": return mechanism.levels * mechanism.width;
    default: {
      const missing: never = mechanism; // the compiler names a kind that has no case
      return missing;
    }
  }
}

export function phase(text: string): string {
  const plan: Plan = JSON.parse(text);
  const plays: number = plan.plays.reduce((sum, one) => sum + one, plan.phase + plan.rank);
  const reported: number[] = plan.offsets.map((offset, place) => offset * (plan.mixing[place]?.[0] ?? 1));
  const study: string = plan.study + plan.support.join(",") + plan.per_action.map((one) => one.kind).join();
  return `${study} ${plays} ${reported.length} ${noise(plan.mechanism)}`;
}

export function released(results: Results): number[] {
  return results.phases.map((one) => one.release.means.length * one.plan.mechanism.cohort);
}
