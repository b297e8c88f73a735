namespace Whimbrel.Simulation;

// Something that the library promises did not hold.
public sealed class OracleException(string message) : Exception(message);
