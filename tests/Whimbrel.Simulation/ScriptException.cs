namespace Whimbrel.Simulation;

// Thrown by a scripted session on purpose.
public sealed class ScriptException(string message) : Exception(message);
