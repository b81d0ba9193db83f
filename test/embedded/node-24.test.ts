import { describeOnNode } from './other-node';

describeOnNode(24);
