import { clock } from './clock.ts';

/** Repeats while the page is visible; a hidden page asks nothing. */
export function every(ms: () => number, ask: () => Promise<void>): void {
  let isAsking = false;
  let cancel = (): void => undefined;
  const tick = async (): Promise<void> => {
    cancel();
    if (document.hidden || isAsking) return;
    isAsking = true;
    await ask();
    isAsking = false;
    cancel = clock.after(ms(), () => void tick());
  };
  document.addEventListener('visibilitychange', () => void tick());
  void tick();
}
