// Make the bundle of the extension; with `node esbuild.mjs core FILE`, a bundle of the logic for programs in Node.
import { build } from "esbuild";

const [what, outfile = "dist/core.mjs"] = process.argv.slice(2);
const common = {
  bundle: true,
  platform: "node",
  target: "node20",
  sourcemap: false,
  legalComments: "none",
  // The client is bundled from its source, so nothing has to be built before.
  alias: { "sessiond-client": "../typescript/src/index.ts" },
};

if (what === "core") {
  await build({ ...common, entryPoints: ["src/core/index.ts"], format: "esm", outfile });
} else {
  await build({
    ...common,
    entryPoints: ["src/editor/extension.ts"],
    format: "cjs",
    external: ["vscode"],
    minify: true,
    outfile: "dist/extension.js",
  });
}
