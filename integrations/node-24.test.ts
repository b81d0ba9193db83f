import { describeOnNode, withoutServer } from '../test/embedded/other-node';

describeOnNode(24, withoutServer);
