// Which tools of others this machine has.

import { execFileSync } from 'node:child_process';

export function isInstalled(tool: string): boolean {
  try {
    execFileSync('which', [tool], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
