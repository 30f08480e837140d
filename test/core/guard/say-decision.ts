import type { GuardDecision } from '../../../src/core/guard/decision.ts';

/** `fence w1`, `advance w1 decided > off-sent [off]`, `hold w1 storm burst`. */
export function sayDecision(decision: GuardDecision): string {
  switch (decision.kind) {
    case 'hold': {
      const closed = decision.gates.find(({ isOpen }) => !isOpen);
      return `hold ${decision.node.name} ${closed?.gate} ${closed?.because}`;
    }
    case 'fence':
      return `fence ${decision.node.name}`;
    case 'answer':
      return `answer ${decision.order} ${decision.answer.isAccepted ? 'accepted' : decision.answer.why}`;
    case 'resign':
      return 'resign';
    case 'unmark':
      return `unmark ${decision.node.name} ${decision.act.kind}`;
    default: {
      const act = decision.act === null ? '' : ` [${decision.act.kind}]`;
      return `${decision.kind} ${decision.node.name} ${decision.from} > ${decision.record.phase}${act}`;
    }
  }
}
