import { describeOnNode } from './other-node';

describeOnNode(22);
