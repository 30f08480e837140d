import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // For what hangs; a starved machine takes minutes for some.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    // Two files at a time: machine tests make real load.
    maxWorkers: 2,
  },
});
