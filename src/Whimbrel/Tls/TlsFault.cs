namespace Whimbrel.Tls;

/// <summary>Reason why a layer failed.</summary>
/// <param name="Cause">Kind of the failure.</param>
/// <param name="Message">Failure and reason, in one sentence without the peer's address and a full stop.</param>
internal readonly record struct TlsFault(TlsFailure Cause, string Message);
