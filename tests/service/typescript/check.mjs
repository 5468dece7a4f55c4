// Generates types from OpenAPI documents, compiles a program that uses them, and looks for loose types.
//
//   node check.mjs TOOLS CASES.json PROGRAM.ts
//
// TOOLS is the folder whose node_modules has openapi-typescript and typescript. CASES.json is a list of objects
// with a `document` and `names` of component schemas. Prints a list of JSON objects: `errors`, what the compiler
// says under --strict, and `loose`, the path of each part of the named schemas whose type is `unknown` or `any`.
// One process does everything, because loading the compiler takes long.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tools, casesPath, programPath] = process.argv.slice(2);
const require = createRequire(`${tools}/node_modules/`);
const ts = require("typescript");
const generator = pathToFileURL(`${tools}/node_modules/openapi-typescript/dist/index.mjs`);
const { default: openapiTS, astToString } = await import(generator);

const options = {
  strict: true, noEmit: true, noUncheckedIndexedAccess: true, types: [], lib: ["lib.es2015.d.ts"],
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
};
const base = ts.createCompilerHost(options), parsed = new Map();

function compiled(files) {
  const getSourceFile = (name) => {
    if (name in files) return ts.createSourceFile(name, files[name], options.target);
    if (!parsed.has(name)) parsed.set(name, base.getSourceFile(name, options.target)); // the standard library
    return parsed.get(name);
  };
  const fileExists = (name) => name in files || base.fileExists(name);
  return ts.createProgram(Object.keys(files), options, { ...base, getSourceFile, fileExists });
}

function looseParts(program, module) {
  const checker = program.getTypeChecker(), loose = [], seen = new Set();
  function look(type, path) {
    if (type.flags & (ts.TypeFlags.Unknown | ts.TypeFlags.Any)) loose.push(path);
    if (seen.has(type) || !(type.flags & (ts.TypeFlags.Object | ts.TypeFlags.UnionOrIntersection))) return;
    seen.add(type);
    for (const part of type.types ?? []) look(part, path);
    if (checker.isArrayType(type) || checker.isTupleType(type)) {
      for (const part of checker.getTypeArguments(type)) look(part, `${path}[]`);
    } else if (!type.types) {
      for (const one of type.getProperties()) look(checker.getTypeOfSymbol(one), `${path}.${one.name}`);
      for (const one of checker.getIndexInfosOfType(type)) look(one.type, `${path}[*]`);
    }
  }
  for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(module)))) {
    look(checker.getTypeOfSymbol(symbol), symbol.name);
  }
  return { loose, parts: seen.size };
}

const found = [];
for (const { document, names } of JSON.parse(readFileSync(casesPath, "utf8"))) {
  const program = compiled({
    "/types.ts": astToString(await openapiTS(document)),
    "/program.ts": readFileSync(programPath, "utf8"),
    "/named.ts": 'import type { components } from "./types";\n' +
      names.map((name) => `export declare const ${name}: components["schemas"]["${name}"];`).join("\n"),
  });
  const errors = ts.getPreEmitDiagnostics(program).map((one) =>
    `${one.file?.fileName}:${one.start}: ${ts.flattenDiagnosticMessageText(one.messageText, " ")}`);
  found.push({ errors, ...looseParts(program, "/named.ts") });
}
console.log(JSON.stringify(found));
