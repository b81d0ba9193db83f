// A fork of redlock with the same README: https://github.com/sesamecare/redlock#configuration
import { createRequire } from 'node:module';
import * as redlock from './redlock.mjs';

const require = createRequire(import.meta.url);
export const { version } = require('../node_modules/@sesamecare-oss/redlock/package.json');
export const source = 'https://github.com/sesamecare/redlock';
export const { promises, settings } = redlock;
export const open = (url, terms) => redlock.open(url, terms, require('@sesamecare-oss/redlock').Redlock);
