import { describeNest } from '../nest-suite';

describeNest(10, require);
