import { defineConfig } from 'vitest/config';

// The tests that hold the core: its own, and a part of the recorded looks.
export default defineConfig({
  test: {
    include: ['test/core/**/*.test.ts'],
    testTimeout: 60_000,
  },
});
