#!/usr/bin/env node
// The command line. The library loads nothing of it.
import { main } from './cli/main';

void main(process.argv.slice(2));
