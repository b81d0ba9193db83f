import { describeNest } from '../nest-suite';

describeNest(11, require);
