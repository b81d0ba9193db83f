import { describeOnNode } from '../test/embedded/other-node';

describeOnNode(26);
