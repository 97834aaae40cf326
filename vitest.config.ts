import { defineConfig } from 'vitest/config';

const isLong = process.env.FASTPROBE_TORTURE === 'long';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    // Tests stop and start real processes: a forked runner keeps a crash of the addon inside one file.
    pool: 'forks',
    testTimeout: isLong ? 3_600_000 : 60_000,
    hookTimeout: 60_000,
  },
});
