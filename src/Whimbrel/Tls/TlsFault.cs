namespace Whimbrel.Tls;

/// <summary>Why a layer refused to go on.</summary>
/// <param name="Cause">Its kind.</param>
/// <param name="Message">What happened and why, one sentence without the peer's address and without a full stop.</param>
internal readonly record struct TlsFault(TlsFailure Cause, string Message);
