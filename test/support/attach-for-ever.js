// Attaches, stops, runs a remote system call, resumes and detaches in a loop until it is killed. Argument: the pid.

import { attach } from '../../dist/src/target/index.js';

const pid = Number(process.argv[2]);
console.log('ready');
for (;;) {
  const target = await attach(pid);
  await target.stop();
  await target.registers();
  await target.remote.call('getpid');
  await target.resume();
  await target.stop();
  await target.detach();
}
