import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Tests stop and start real processes: a forked runner keeps a crash of the addon inside one file.
    pool: 'forks',
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
