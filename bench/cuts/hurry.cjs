// Loaded before the agent: its timers and its monotonic clock pass BENCH_HURRY times as fast.
const times = Number(process.env.BENCH_HURRY);
const { setTimeout: after } = globalThis;
const now = process.hrtime.bigint;
const start = now();
process.hrtime.bigint = () => start + (now() - start) * BigInt(times);
globalThis.setTimeout = (run, ms, ...rest) => after(run, ms / times, ...rest);
