#!/usr/bin/env node
// The command line tool. The library loads none of its files.
import { main } from './cli/main';

void main(process.argv.slice(2));
