import { describe, expect, it } from 'vitest';
import { adoptState } from '../../../src/core/state/adopt.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aCore, aShutdownConfig, CANCELLED, db, LOCK, PREPARING, said, web } from './a-shutdown.ts';

const config = aShutdownConfig();

describe('a shutdown that an agent left behind', () => {
  it('continues with the stops in progress and the remaining phases, without the lock that died with the agent', () => {
    const { look, ended, state } = aCore(config, [web, db]);
    look(0, { shutdownEvents: [LOCK, PREPARING] });
    const { state: adopted, isInterrupted } = adoptState(state(), 'boot', 5_000);
    expect(isInterrupted).toBe(false);
    const again = aCore(config, [web, db], adopted);
    expect(said(again.look(5_000))).toEqual([]);
    expect(said(again.look(6_000, { outcomes: [ended(web, 6_000)] }))).toEqual(['stop db in 2 for 10 s']);
    expect(said(again.look(7_000, { shutdownEvents: [CANCELLED] }))).toEqual(['take-lock', 'undo-stops']);
  });

  it('is not armed before the new agent gets the lock', () => {
    const { look, state } = aCore(config, [web]);
    look(0, { shutdownEvents: [LOCK] });
    const { state: adopted } = adoptState(state(), 'boot', 5_000);
    expect(adopted.shutdown).toEqual({ kind: 'unarmed', why: 'the agent was restarted' });
    expect(aCore(config, [web], adopted).look(5_001, { shutdownEvents: [LOCK] }).state.shutdown.kind).toBe('armed');
  });

  it('is reported in the next boot, and nothing of it is left', () => {
    const { look, state } = aCore(config, [web]);
    look(0, { shutdownEvents: [LOCK, PREPARING] });
    const { state: adopted, isInterrupted } = adoptState(state(), 'another', 5_000);
    expect(isInterrupted).toBe(true);
    expect(adopted).toEqual({ ...initialState('another'), nextDecision: state().nextDecision });
  });
});
