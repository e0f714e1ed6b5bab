import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vite';

// APP names the application, OUT the folder for its built files, and LICENSES the folder for the licences of the
// packages whose code is in them. The names of the built files have no hash, so that they stay the same.
const app = process.env.APP;
const plugins = { react: [], vue: [vue()], svelte: [svelte({ configFile: false })] };
const output = {
  entryFileNames: 'assets/[name].js',
  chunkFileNames: 'assets/[name].js',
  assetFileNames: 'assets/[name][extname]',
};

// licenses copies the licence of each package whose code is in a built file.
const licenses = {
  name: 'licenses',
  generateBundle(_, bundle) {
    mkdirSync(process.env.LICENSES, { recursive: true });
    for (const chunk of Object.values(bundle)) {
      for (const [id, module] of Object.entries(chunk.modules || {})) {
        const at = id.match(/^\0?(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//);
        if (!at || !module.renderedLength) continue;
        const { version } = JSON.parse(readFileSync(join(at[1], 'package.json')));
        const file = ['LICENSE', 'LICENSE.md', 'license'].map((n) => join(at[1], n)).find(existsSync);
        if (!file) throw new Error(`${at[2]} has no licence`);
        copyFileSync(file, join(process.env.LICENSES, `${at[2].replace('/', '+')}@${version}.txt`));
      }
    }
  },
};

export default defineConfig({
  root: app,
  plugins: [...plugins[app], licenses],
  define: { __VUE_OPTIONS_API__: false, __VUE_PROD_DEVTOOLS__: false },
  worker: { format: 'es', rollupOptions: { output } },
  build: { outDir: process.env.OUT, emptyOutDir: true, modulePreload: { polyfill: false }, rollupOptions: { output } },
});
