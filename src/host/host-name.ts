export { hostname as hostName } from 'node:os';
