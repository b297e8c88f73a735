namespace Whimbrel.Simulation;

// A guarantee of the library was violated.
public sealed class OracleException(string message) : Exception(message);
