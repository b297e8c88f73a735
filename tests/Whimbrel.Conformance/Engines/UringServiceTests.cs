namespace Whimbrel.Conformance;

// The io_uring engine: the suites of EngineServiceTests.cs.
public sealed class UringTcpEngine() : EngineSuite(Transport.UringTcp);

public sealed class UringUnixEngine() : EngineSuite(Transport.UringUnix);

public sealed class UringTcpPostAsync() : PostAsyncSuite(Transport.UringTcp);

public sealed class UringUnixPostAsync() : PostAsyncSuite(Transport.UringUnix);

public sealed class UringTcpTimerForms() : TimerFormsSuite(Transport.UringTcp);

public sealed class UringUnixTimerForms() : TimerFormsSuite(Transport.UringUnix);
