// A BMC: what fence_redfish asks of one, with the power of a machine of the lab behind it.
import fs from 'node:fs';
import https from 'node:https';
import path from 'node:path';
import { RUN } from '../kube/cluster.ts';
import type { Machine } from './machine.ts';

const PORT = 8_443;
const SYSTEM = '/redfish/v1/Systems/1';
const RESET = `${SYSTEM}/Actions/ComputerSystem.Reset`;

export type Bmc = {
  readonly port: number;
  /** Requests with the right password: method and path. */
  readonly asked: readonly string[];
  readonly refused: () => number;
  /** Whose power it shows and switches from now on, and who notes that; before that its machine is on, whatever it is told. */
  readonly of: (machine: Machine) => void;
  readonly close: () => void;
};

export async function aBmc(address: string, password: string): Promise<Bmc> {
  const asked: string[] = [];
  let refused = 0;
  let machine: Machine | null = null;
  const right = `Basic ${Buffer.from(`fencer:${password}`).toString('base64')}`;
  const power = (): 'on' | 'off' => (machine?.isOn() === false ? 'off' : 'on');
  const note = (file: 'calls' | 'power.log', line: string): void => {
    if (machine !== null) fs.appendFileSync(path.join(machine.directory, file), `${Date.now() / 1_000} ${line}\n`);
  };

  /** Null: there is no such place. */
  function answer(place: string): object | null {
    if (place === '/redfish/v1') return { Systems: { '@odata.id': '/redfish/v1/Systems' } };
    if (place === '/redfish/v1/Systems') return { Members: [{ '@odata.id': SYSTEM }] };
    if (place !== SYSTEM) return null;
    note('calls', `ended-status ${power()}`);
    const PowerState = power() === 'on' ? 'On' : 'Off';
    return { PowerState, Actions: { '#ComputerSystem.Reset': { target: RESET } } };
  }

  function reset(body: string): void {
    const to = JSON.parse(body).ResetType === 'On' ? 'on' : 'off';
    if (to === power()) return;
    machine?.power(to);
    note('power.log', to);
  }

  const pki = (name: string): Buffer => fs.readFileSync(path.join(RUN, 'pki', name));
  const server = https.createServer({ key: pki('server.key'), cert: pki('server.crt') }, (request, response) => {
    const { method, url = '' } = request;
    const isRight = request.headers.authorization === right;
    if (isRight) asked.push(`${method} ${url}`);
    else refused += 1;
    let body = '';
    request.on('data', (data) => {
      body += data;
    });
    request.on('end', () => {
      if (isRight && method === 'POST' && url === RESET) reset(body);
      response.statusCode = isRight ? 200 : 401;
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify((isRight && method === 'GET' ? answer(url) : null) ?? {}));
    });
  });
  await new Promise<void>((resolve) => void server.listen(PORT, address, () => resolve()));
  return {
    port: PORT,
    asked,
    refused: () => refused,
    of: (which) => {
      machine = which;
    },
    close: () => void server.close(),
  };
}
