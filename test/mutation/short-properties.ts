import fc from 'fast-check';

// Each property runs against each of some thousand mutants: a moment of it, always the same.
fc.configureGlobal({ interruptAfterTimeLimit: 150, markInterruptAsFailure: false, seed: 1 });
