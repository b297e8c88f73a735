namespace Whimbrel.Conformance;

// The io_uring engine: the suites of ServerFeatureTests.cs.
public sealed class UringTcpAccepting() : AcceptSuite(Transport.UringTcp);

public sealed class UringTcpServerLives() : ServerLifeSuite(Transport.UringTcp);

public sealed class UringTcpCounters() : CounterSuite(Transport.UringTcp);

public sealed class UringUnixAccepting() : AcceptSuite(Transport.UringUnix);

public sealed class UringUnixServerLives() : ServerLifeSuite(Transport.UringUnix);

public sealed class UringUnixCounters() : CounterSuite(Transport.UringUnix);
