import { defineConfig } from 'vitest/config';

// The tests that hold the core: its own, and a part of what was recorded of the kubelet.
export default defineConfig({
  test: {
    // MUTATION_TESTS: patterns of the tests to run instead, separated by blanks.
    include: process.env['MUTATION_TESTS']?.split(' ') ?? ['test/core/**/*.test.ts', 'test/mutation/recorded.ts'],
    // Seconds of it for each mutant would show nothing that the others do not.
    exclude: ['test/core/state/state.test.ts', 'test/core/guard/any-world.property.test.ts'],
    setupFiles: ['test/mutation/short-properties.ts'],
    testTimeout: 60_000,
    isolate: false,
  },
});
