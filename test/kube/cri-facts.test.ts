import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  cgroupsPathOf,
  configuredSandboxImage,
  containersOf,
  ENTRIES_MAX,
  sandboxesOf,
} from '../../src/kube/cri/checked-answers.ts';
import { ContainerSchema, PodSandboxSchema } from '../../src/kube/cri/cri_pb.ts';

/** Right, almost right, and anything. */
const text = (right: string) =>
  fc.oneof(
    fc.constant(right),
    fc.string({ unit: 'binary', maxLength: 80 }),
    fc.constantFrom(`${right}\n`, `${right}/..`, `../${right}`, `${right}\u202e`, '', '..', '\0', 'x'.repeat(300)),
  );
const HEX = 'ab'.repeat(32);
const UID = '11111111-2222-3333-4444-555555555555';
const entry = fc.record({
  id: text(HEX),
  podSandboxId: text(HEX),
  imageRef: text('reg/app:1'),
  imageId: text(`sha256:${HEX}`),
  labels: fc.record({
    'io.kubernetes.pod.uid': text(UID),
    'io.kubernetes.pod.name': text('web-0'),
    'io.kubernetes.pod.namespace': text('shop'),
    'io.kubernetes.container.name': text('app'),
  }),
  annotations: fc.record({ 'kubernetes.io/config.source': text('file') }),
});

it('facts of the runtime contain only harmless names', () => {
  fc.assert(
    fc.property(entry, ({ annotations, ...of }) => {
      const containers = containersOf([create(ContainerSchema, of)]);
      const sandboxes = sandboxesOf([create(PodSandboxSchema, { ...of, annotations })]);
      const items = [
        ...(containers.known ? containers.value.items : []),
        ...(sandboxes.known ? sandboxes.value.items : []),
      ];
      for (const item of items) {
        expect(JSON.stringify(item)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
        const { image: _, ...names } = { image: null, ...item };
        for (const name of Object.values(names)) expect(String(name)).toMatch(/^[a-z0-9.-]*$/);
        for (const name of Object.values(names)) expect(String(name)).not.toContain('..');
      }
      // What is right is there.
      const { 'io.kubernetes.pod.uid': uid, 'io.kubernetes.container.name': name } = of.labels;
      if (of.id === HEX && of.podSandboxId === HEX && uid === UID && name === 'app') {
        expect(containers).toMatchObject({ value: { items: [{ name: 'app' }], ignored: 0 } });
      }
    }),
    { numRuns: 500 },
  );
});

it("a list that is longer than any kubelet's is refused", () => {
  const one = create(ContainerSchema, { id: HEX });
  expect(containersOf(Array.from({ length: ENTRIES_MAX + 1 }, () => one))).toMatchObject({ why: 'malformed' });
});

it.each(['', '{', '[]', 'null', '{"sandboxImage":7}', '{"__proto__":{"sandboxImage":"x"}}'])(
  'no sandbox image is read from %j',
  (config) => {
    expect(configuredSandboxImage({ config })).toMatchObject({ known: false, why: 'absent' });
    expect(cgroupsPathOf({ info: config })).toMatchObject({ known: false, why: 'absent' });
  },
);
